package webhookintake_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"ndrbridge/internal/commands"
	"ndrbridge/internal/commands/webhookintake"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// jiraBody returns the body of Jira's webhook about an issue.
func jiraBody(event, user, changed, status, category, resolution string) string {
	items := ""
	for i, field := range strings.Fields(changed) {
		if i > 0 {
			items += ","
		}
		items += fmt.Sprintf(`{"field": %q, "fieldtype": "jira", "fieldId": %q, "from": "1", "fromString": "a", "to": "2", "toString": "b"}`, field, field)
	}
	changelog := ""
	if changed != "" {
		changelog = fmt.Sprintf(`"changelog": {"id": "10502", "items": [%s]},`, items)
	}
	if resolution != "null" {
		resolution = fmt.Sprintf(`{"id": "10000", "name": %q}`, resolution)
	}
	return fmt.Sprintf(`{"timestamp": 1750935535971, "webhookEvent": %q, "issue_event_type_name": "issue_generic",
		"user": {"accountId": %q, "displayName": "Ana", "active": true}, %s
		"issue": {"id": "10071", "self": "https://jira.example/rest/api/2/10071", "key": "SEC-12", "fields": {
			"summary": "Port scan", "assignee": null, "resolution": %s, "labels": ["ndr", "25769804127"],
			"status": {"name": %q, "id": "3", "statusCategory": {"id": 4, "key": %q, "name": "x"}}}}}`,
		event, user, changelog, resolution, status, category)
}

// incident is the body of a ServiceNow REST message.
func incident(operation, state, closeCode, by string, count int) string {
	return fmt.Sprintf(`{"operation": %q, "table": "incident", "sys_id": "9d385017c611228701d22104cc95c371", "number": "INC0010023",
		"state": %q, "close_code": %q, "close_notes": "", "assigned_to": "", "sys_updated_by": %q, "sys_mod_count": %d}`,
		operation, state, closeCode, by, count)
}

func pointer(s string) *string { return &s }

func TestWebhooksAreMapped(t *testing.T) {
	const created, updated = "jira:issue_created", "jira:issue_updated"
	jira, now, generic := webhookintake.Jira(), webhookintake.ServiceNow(), webhookintake.Generic()
	sec12 := func(status, resolution string) commands.Command {
		return commands.Command{TicketID: "SEC-12", Status: status, Resolution: resolution}
	}
	inc := func(status, resolution string) commands.Command {
		return commands.Command{TicketID: "INC0010023", Status: status, Resolution: resolution}
	}
	for _, c := range []struct {
		name    string
		mapping webhookintake.Mapping
		header  [2]string
		body    string
		want    webhookintake.Notice
		ignored string // why
		field   string // that cannot be mapped
	}{
		{name: "an issue that Jira made is new", mapping: jira, body: jiraBody(created, "ana", "", "To Do", "new", "null"), want: webhookintake.Notice{Command: sec12("new", "")}},
		{name: "a status of a workflow's own goes by its category", mapping: jira, body: jiraBody(updated, "ana", "status", "Waiting", "indeterminate", "null"), want: webhookintake.Notice{Command: sec12("in_progress", "")}},
		{name: "a status that the user maps takes precedence over its category", mapping: jira.Over(webhookintake.Mapping{Statuses: map[string]string{"WAITING": "acknowledged"}}), body: jiraBody(updated, "ana", "status", "Waiting", "indeterminate", "null"), want: webhookintake.Notice{Command: sec12("acknowledged", "")}},
		{name: "an issue that is done is closed, with its resolution", mapping: jira, body: jiraBody(updated, "ana", "status resolution", "Done", "done", "Won't Do"), want: webhookintake.Notice{Command: sec12("closed", "no_action_taken")}},
		{name: "a resolution that changed later takes the status along", mapping: jira, body: jiraBody(updated, "ana", "resolution", "Done", "done", "Fixed"), want: webhookintake.Notice{Command: sec12("closed", "action_taken")}},
		{name: "a resolution of a site's own does not keep a ticket open", mapping: jira, body: jiraBody(updated, "ana", "status resolution", "Done", "done", "Moved elsewhere"), want: webhookintake.Notice{Command: sec12("closed", "")}},
		{name: "Jira's identifier names the request", mapping: jira, header: [2]string{"X-Atlassian-Webhook-Identifier", "f2a0"}, body: jiraBody(created, "ana", "", "To Do", "new", "null"), want: webhookintake.Notice{Key: "f2a0", Command: sec12("new", "")}},
		{name: "a summary that was edited changes nothing", mapping: jira, body: jiraBody(updated, "ana", "summary labels", "Done", "done", "Done"), ignored: "changes nothing"},
		{name: "an assignee that is not mapped changes nothing", mapping: jira, body: jiraBody(updated, "ana", "assignee", "Done", "done", "Done"), ignored: "changes nothing"},
		{name: "a null assignee unassigns", mapping: jira.Over(webhookintake.Mapping{Assignee: "issue.fields.assignee.emailAddress"}), body: jiraBody(updated, "ana", "assignee", "Done", "done", "Done"), want: webhookintake.Notice{Command: commands.Command{TicketID: "SEC-12", Assignee: pointer("")}}},
		{name: "an issue that was deleted is ignored", mapping: jira, body: jiraBody("jira:issue_deleted", "ana", "", "Done", "done", "Done"), ignored: "jira:issue_deleted"},
		{name: "a comment is ignored", mapping: jira, body: jiraBody("comment_created", "ana", "", "Done", "done", "Done"), ignored: "comment_created"},
		{name: "a change by our own account is ignored", mapping: jira, body: jiraBody(updated, "5b10a:bridge", "status", "Done", "done", "Done"), ignored: "own account"},
		{name: "an unknown category is an error", mapping: jira, body: jiraBody(updated, "ana", "status", "Odd", "odd", "Done"), field: "issue.fields.status.statusCategory.key"},
		{name: "an issue without a key is an error", mapping: jira, body: `{"webhookEvent": "jira:issue_created", "issue": {"fields": {}}}`, field: "issue.key"},
		{name: "a changelog that is not a list is an error", mapping: jira, body: `{"issue": {"key": "A-1"}, "changelog": {"items": 7}}`, field: "changelog.items"},
		{name: "a status that is a list is an error", mapping: jira, body: `{"issue": {"key": "A-1", "fields": {"status": {"name": []}}}}`, field: "issue.fields.status.name"},
		{name: "a detection can be found in a list", mapping: jira.Over(webhookintake.Mapping{DetectionID: "issue.fields.labels.1"}), body: jiraBody(created, "ana", "", "To Do", "new", "null"), want: webhookintake.Notice{Command: commands.Command{TicketID: "SEC-12", DetectionID: 25769804127, Status: "new"}}},
		{name: "a detection's id is a number", mapping: jira.Over(webhookintake.Mapping{DetectionID: "issue.fields.labels.0"}), body: jiraBody(created, "ana", "", "To Do", "new", "null"), field: "issue.fields.labels.0"},

		{name: "an incident on hold is in progress", mapping: now, body: incident("update", "3", "", "ana", 4), want: webhookintake.Notice{Key: "9d385017c611228701d22104cc95c371/4", Command: inc("in_progress", "")}},
		{name: "an incident that is resolved is closed", mapping: now, body: incident("update", "6", "Solution provided", "ana", 5), want: webhookintake.Notice{Key: "9d385017c611228701d22104cc95c371/5", Command: inc("closed", "action_taken")}},
		{name: "an incident that was canceled is closed", mapping: now, body: incident("update", "8", "No resolution provided", "ana", 6), want: webhookintake.Notice{Key: "9d385017c611228701d22104cc95c371/6", Command: inc("closed", "no_action_taken")}},
		{name: "an unknown state is an error", mapping: now, body: incident("update", "10", "", "ana", 6), field: "state"},
		{name: "a state that is mapped to nothing is ignored", mapping: now.Over(webhookintake.Mapping{Statuses: map[string]string{"10": "ignore"}}), body: incident("update", "10", "", "ana", 6), ignored: "changes nothing"},
		{name: "an incident that was deleted is ignored", mapping: now, body: incident("delete", "7", "", "ana", 6), ignored: "delete"},
		{name: "a change of an incident by our own account is ignored", mapping: now, body: incident("update", "7", "", "5b10a:bridge", 6), ignored: "own account"},

		{name: "any tool may send a command", mapping: generic, header: [2]string{"Idempotency-Key", "k1"}, body: `{"ticket_id": 40360, "status": "closed", "resolution": "action_taken", "assignee": "ana", "appliance": "hq", "detection_id": 7, "more": {}}`,
			want: webhookintake.Notice{Key: "k1", Command: commands.Command{TicketID: "40360", Appliance: "hq", DetectionID: 7, Status: "closed", Resolution: "action_taken", Assignee: pointer("ana")}}},
		{name: "an unknown resolution is an error", mapping: generic, body: `{"ticket_id": "1", "status": "closed", "resolution": "fixed"}`, field: "resolution"},
		{name: "an empty list of what changed changes nothing", mapping: generic.Over(webhookintake.Mapping{Changes: "changed"}), body: `{"ticket_id": "1", "status": "closed", "changed": []}`, ignored: "changes nothing"},
		{name: "a body that is not an object has no ticket", mapping: generic, body: `["closed"]`, field: "ticket_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			receiver, err := webhookintake.New(webhookintake.Options{Accounts: []string{"5b10a:bridge"}, Mapping: c.mapping})
			require.NoError(t, err)
			header := http.Header{}
			header.Set(c.header[0], c.header[1])
			got, err := receiver.Read(header, []byte(c.body))
			var wrong *commands.FieldError
			switch {
			case c.field != "":
				assert.True(t, errors.As(err, &wrong) && wrong.Field == c.field, got, err, "want an error about", c.field)
			case err != nil:
				t.Error(err)
			case c.ignored != "":
				assert.Contains(t, got.Ignored, c.ignored, got)
			case !reflect.DeepEqual(got, c.want):
				t.Errorf("%+v, want %+v", got, c.want)
			default:
				assert.NoError(t, got.Command.Check())
			}
		})
	}
}

func TestInvalidJSON(t *testing.T) {
	receiver := require.Value(webhookintake.New(webhookintake.Options{Mapping: webhookintake.Jira()}))(t)
	for _, body := range []string{
		"", "status=closed", `{"issue": `, `{} {}`,
		`{"issue": {"key": "SEC-1"}, "issue": {"key": "SEC-2"}}`,     // readers disagree on which counts
		`{"issue": {"key": "SEC-1", "\u006bey": "SEC-2"}}`,           // the same name, escaped
		"{\"issue\": {\"key\": \"SEC-\xff\"}}",                       // not UTF-8
		`{"issue": {"key": "SEC-\ud800"}}`,                           // half a surrogate pair
		`{"issue": {"key": "SEC-1"}, "changelog": {"a": 1, "a": 2}}`, // where no mapping looks
	} {
		_, err := receiver.Read(nil, []byte(body))
		assert.ErrorIs(t, err, webhookintake.ErrSyntax, body)
	}
}

func TestInvalidMappings(t *testing.T) {
	for name, m := range map[string]webhookintake.Mapping{
		"ticket_id":   {},
		"statuses":    {TicketID: "a", Statuses: map[string]string{"done": "finished"}},
		"resolutions": {TicketID: "a", Resolutions: map[string]string{"done": "closed"}},
	} {
		_, err := webhookintake.New(webhookintake.Options{Mapping: m})
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), name+": "), name, err)
	}
}

func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestVerification(t *testing.T) {
	const secret, body = "s3cret", `{"a": 1}`
	signature := webhookintake.Verification{Method: webhookintake.MethodSignature, Header: "X-Hub-Signature"}
	shared := webhookintake.Verification{Method: webhookintake.MethodHeader, Header: "X-Bridge-Secret"}
	basic := webhookintake.Verification{Method: webhookintake.MethodBasic, Username: "now"}
	for _, c := range []struct {
		name          string
		v             webhookintake.Verification
		header, value string
		refused       bool
	}{
		{"a signature of the body", signature, "X-Hub-Signature", sign(secret, body), false},
		{"a signature in capitals", signature, "X-Hub-Signature", strings.ToUpper(sign(secret, body)), false},
		{"a signature of another body", signature, "X-Hub-Signature", sign(secret, body+" "), true},
		{"a signature with another secret", signature, "X-Hub-Signature", sign("other", body), true},
		{"a signature with an empty secret", signature, "X-Hub-Signature", sign("", body), true},
		{"a signature without its method", signature, "X-Hub-Signature", strings.TrimPrefix(sign(secret, body), "sha256="), true},
		{"a signature cut short", signature, "X-Hub-Signature", sign(secret, body)[:20], true},
		{"no signature", signature, "X-Other", "", true},
		{"the secret instead of the signature", signature, "X-Hub-Signature", secret, true},
		{"the secret in its header", shared, "X-Bridge-Secret", secret, false},
		{"another secret", shared, "X-Bridge-Secret", "S3cret", true},
		{"no secret", shared, "X-Bridge-Secret", "", true},
		{"the user and the password", basic, "Authorization", "Basic bm93OnMzY3JldA==", false},
		{"the scheme in lower case", basic, "Authorization", "basic  bm93OnMzY3JldA==", false},
		{"another user", basic, "Authorization", "Basic YW5hOnMzY3JldA==", true},
		{"the password as a bearer's token", basic, "Authorization", "Bearer s3cret", true},
		{"neither", basic, "Authorization", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.v.Secret = func() (string, error) { return secret, nil }
			receiver, err := webhookintake.New(webhookintake.Options{Verify: &c.v, Mapping: webhookintake.Generic()})
			require.NoError(t, err)
			header := http.Header{}
			header.Set(c.header, c.value)
			err = receiver.Verify(header, []byte(body))
			assert.True(t, errors.Is(err, webhookintake.ErrUnverified) == c.refused && (err == nil || !strings.Contains(err.Error(), secret)), err, c.refused)
		})
	}
	t.Run("an unreadable or empty secret verifies nothing", func(t *testing.T) {
		for _, read := range []func() (string, error){
			func() (string, error) { return "", errors.New("permission denied") },
			func() (string, error) { return "", nil },
		} {
			for _, v := range []webhookintake.Verification{signature, shared, basic} {
				v.Secret = read
				receiver, err := webhookintake.New(webhookintake.Options{Verify: &v, Mapping: webhookintake.Generic()})
				require.NoError(t, err)
				err = receiver.Verify(http.Header{"X-Hub-Signature": {sign("", body)}}, []byte(body))
				assert.True(t, err != nil && !errors.Is(err, webhookintake.ErrUnverified), v.Method, err)
			}
		}
	})
}

// Any body is either refused with a reason or yields a valid command.
func FuzzMappings(f *testing.F) {
	var receivers []*webhookintake.Receiver
	for _, m := range []webhookintake.Mapping{
		webhookintake.Jira().Over(webhookintake.Mapping{Assignee: "issue.fields.assignee.name", DetectionID: "issue.fields.labels.1"}),
		webhookintake.ServiceNow(), webhookintake.Generic(),
	} {
		receiver := require.Value(webhookintake.New(webhookintake.Options{Accounts: []string{"bridge"}, Mapping: m}))(f)
		receivers = append(receivers, receiver)
	}
	f.Add(jiraBody("jira:issue_updated", "ana", "status resolution", "Done", "done", "Fixed"))
	f.Add(incident("update", "6", "Solution provided", "ana", 5))
	f.Add(`{"ticket_id": "1", "status": "closed", "resolution": "action_taken", "assignee": null, "detection_id": 1e3}`)
	f.Add(`{"issue": {"key": "A-1", "fields": [null, {"status": 7}]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, receiver := range receivers {
			notice, err := receiver.Read(http.Header{}, []byte(body))
			var wrong *commands.FieldError
			switch {
			case err != nil:
				assert.True(t, errors.Is(err, webhookintake.ErrSyntax) || errors.As(err, &wrong), "unexpected", err)
			case notice.Ignored != "":
				assert.Equal(t, notice.Command, commands.Command{}, "ignored, with a command", notice)
			default:
				// Only free text can still be wrong.
				err := notice.Command.Check()
				assert.True(t, err == nil || errors.As(err, &wrong) && wrong.Field != "status" && wrong.Field != "resolution" && wrong.Field != "", notice.Command, err)
			}
		}
	})
}
