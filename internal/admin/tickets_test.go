package admin_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/commands/webhookintake"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const secret = "jira-s3cret"

// withIntakes returns the options of a handler with ticket intakes for the appliance hq: the API, a
// webhook jira with a secret, and a webhook otrs without one.
func withIntakes(t *testing.T, c *control, read func() (string, error)) admin.Options {
	t.Helper()
	known := make(map[string]*webhookintake.Receiver)
	for name, o := range map[string]webhookintake.Options{
		"jira": {
			Verify:   &webhookintake.Verification{Method: webhookintake.MethodSignature, Header: "X-Hub-Signature", Secret: read},
			Accounts: []string{"bridge"}, Mapping: webhookintake.Jira(),
		},
		"otrs": {Mapping: webhookintake.Generic()},
	} {
		receiver := require.Value(webhookintake.New(o))(t)
		known[name] = receiver
	}
	acceptor := commands.NewAcceptor(c.store, commands.AcceptorOptions{
		Appliances: []string{"hq"}, Now: time.Now, Metrics: commands.NewAcceptorMetrics(prometheus.NewRegistry()),
	})
	o := handler(c)
	o.Tickets = func() admin.Tickets { return admin.Tickets{Acceptor: acceptor, Webhooks: known} }
	return o
}

// intakes serves the intakes, with the token of o and its Tickets if it has any.
func intakes(t *testing.T, o admin.Options, read func() (string, error)) (*control, *httptest.Server) {
	t.Helper()
	c := newControl(t)
	served := withIntakes(t, c, read)
	served.Token = o.Token
	if o.Tickets != nil {
		served.Tickets = o.Tickets
	}
	return c, newServer(t, served)
}

func readSecret() (string, error) { return secret, nil }

func signature(body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func issue(category, user string) string {
	return fmt.Sprintf(`{"webhookEvent": "jira:issue_updated", "user": {"accountId": %q}, "changelog": {"items": [{"field": "status"}]},
		"issue": {"key": "SEC-1", "fields": {"status": {"name": "x", "statusCategory": {"key": %q}}}}}`, user, category)
}

// answered is the response of an intake.
type answered struct {
	Commands []struct {
		ID        uint64
		Duplicate bool
		Location  string
	}
	Ignored string
}

// accepted checks that the status is 202 and returns the response.
func accepted(t *testing.T, answer *http.Response, body string) answered {
	t.Helper()
	var a answered
	err := json.Unmarshal([]byte(body), &a)
	require.True(t, err == nil && answer.StatusCode == http.StatusAccepted, answer.StatusCode, body, err)
	return a
}

func (c *control) commands(t *testing.T) []checkpoint.Command {
	t.Helper()
	all := require.Value(c.store.Commands(t.Context(), checkpoint.CommandFilter{}, 0, 1000))(t)
	return all
}

func TestCommandsAreTakenIn(t *testing.T) {
	c, server := intakes(t, admin.Options{Token: token}, readSecret)
	bearer := "Bearer " + token
	t.Run("one, with its location", func(t *testing.T) {
		answer, body := send(t, http.MethodPost, server.URL+"/api/v1/tickets", `{"ticket_id": "SEC-1", "status": "closed"}`, "Authorization", bearer, "Content-Type", "application/json; charset=utf-8")
		a := accepted(t, answer, body)
		require.Equal(t, len(a.Commands), 1, body)
		require.Equal(t, answer.Header.Get("Location"), a.Commands[0].Location, body, "at")
		if answer, shown := request(t, http.MethodGet, server.URL+a.Commands[0].Location, "", token); answer.StatusCode != http.StatusOK || !strings.Contains(shown, `"status":"pending"`) || !strings.Contains(shown, `"command":{"ticket_id":"SEC-1","appliance":"hq","status":"closed"}`) {
			t.Errorf("%s", shown)
		}
	})
	for _, of := range []struct{ kind, command, off string }{
		{"rule", `[{"rule_id": 9007199254740993, "end": true, "by": "ana"}]`, "rules.write"},
		{"note", `[{"detection_id": 9007199254740993, "note": "seen", "by": "ana"}]`, "notes.out"},
	} {
		t.Run("one on a "+of.kind+", only where every kind is", func(t *testing.T) {
			answer, body := send(t, http.MethodPost, server.URL+"/api/v1/tickets", of.command, "Authorization", bearer)
			assert.True(t, answer.StatusCode == http.StatusUnprocessableEntity && strings.Contains(body, "[0] the command is about a "+of.kind+": send it to /api/v1/commands"), body)
			answer, body = send(t, http.MethodPost, server.URL+"/api/v1/commands", of.command, "Authorization", bearer)
			assert.True(t, answer.StatusCode == http.StatusUnprocessableEntity && strings.Contains(body, "[0] "+of.off+" is false for the appliance hq"), body)
		})
	}
	t.Run("several", func(t *testing.T) {
		answer, body := send(t, http.MethodPost, server.URL+"/api/v1/tickets", `[{"ticket_id": "A", "status": "new"}, {"ticket_id": "B", "assignee": "ana"}]`, "Authorization", bearer)
		a := accepted(t, answer, body)
		assert.True(t, len(a.Commands) == 2 && a.Commands[0].ID < a.Commands[1].ID && answer.Header.Get("Location") == "", body)
	})
	t.Run("a repeated one once", func(t *testing.T) {
		before := len(c.commands(t))
		var ids []uint64
		for again := range 2 {
			answer, body := send(t, http.MethodPost, server.URL+"/api/v1/tickets", `{"ticket_id": "SEC-2", "status": "new"}`, "Authorization", bearer, "Idempotency-Key", "k1")
			a := accepted(t, answer, body)
			assert.Equal(t, a.Commands[0].Duplicate, again == 1, body)
			ids = append(ids, a.Commands[0].ID)
		}
		n := len(c.commands(t)) - before
		assert.True(t, n == 1 && ids[0] == ids[1], n, "were stored, ids", ids)
	})
	t.Run("a webhook signed by Jira, without the token, by any host name, once", func(t *testing.T) {
		before, body := len(c.commands(t)), issue("done", "ana")
		for range 2 {
			answer, text := send(t, http.MethodPost, server.URL+"/api/v1/tickets/jira", body, "X-Hub-Signature", signature(body), "X-Atlassian-Webhook-Identifier", "w1", "Host", "bridge.example")
			accepted(t, answer, text)
		}
		all := c.commands(t)
		assert.True(t, len(all)-before == 1 && string(all[len(all)-1].Body) == `{"ticket_id":"SEC-1","appliance":"hq","status":"closed"}`, len(all)-before, all)
	})
	t.Run("a webhook repeated with another identifier once", func(t *testing.T) {
		before, body := len(c.commands(t)), strings.Replace(issue("done", "ana"), "SEC-1", "SEC-3", 1)
		for _, identifier := range []string{"w2", "w3", ""} {
			answer, text := send(t, http.MethodPost, server.URL+"/api/v1/tickets/jira", body, "X-Hub-Signature", signature(body), "X-Atlassian-Webhook-Identifier", identifier)
			accepted(t, answer, text)
		}
		assert.Equal(t, len(c.commands(t))-before, 1, "were stored")
	})
	t.Run("a webhook with parameters that its system adds to the address", func(t *testing.T) {
		before, body := len(c.commands(t)), strings.Replace(issue("done", "ana"), "SEC-1", "SEC-4", 1)
		answer, text := send(t, http.MethodPost, server.URL+"/api/v1/tickets/jira?triggeredByUser=ana&user_key=ana&user_key=a;b", body, "X-Hub-Signature", signature(body))
		accepted(t, answer, text)
		assert.Equal(t, len(c.commands(t))-before, 1, "were stored")
	})
	t.Run("a webhook of another system with the token", func(t *testing.T) {
		answer, body := send(t, http.MethodPost, server.URL+"/api/v1/tickets/otrs", `{"ticket_id": "7", "status": "acknowledged"}`, "Authorization", bearer)
		accepted(t, answer, body)
	})
	t.Run("changes of the bridge's own account are ignored", func(t *testing.T) {
		before, body := len(c.commands(t)), issue("done", "bridge")
		answer, text := send(t, http.MethodPost, server.URL+"/api/v1/tickets/jira", body, "X-Hub-Signature", signature(body))
		a := accepted(t, answer, text)
		assert.True(t, len(a.Commands) == 0 && strings.Contains(a.Ignored, "own account") && len(c.commands(t)) == before, text)
	})
}

// TestRefusedCommandsAreNotStored checks that refusals name the field and the allowed
// values, and that nothing is stored.
func TestRefusedCommandsAreNotStored(t *testing.T) {
	open, openServer := intakes(t, admin.Options{Token: token}, readSecret)
	closed, closedServer := intakes(t, admin.Options{Token: token, Tickets: func() admin.Tickets { return admin.Tickets{} }}, readSecret)
	mute, muteServer := intakes(t, admin.Options{Token: token}, func() (string, error) { return "", errors.New("open /run/x") })
	const one = `{"ticket_id": "SEC-1", "status": "closed"}`
	for _, c := range []struct {
		name       string
		path, body string
		headers    []string
		anonymous  bool // the request has no token
		sign       bool
		disabled   bool
		unreadable bool // the secret
		status     int
		detail     string
		field      string
		allowed    []string
	}{
		{name: "a value that no appliance has", body: `{"ticket_id": "SEC-1", "status": "done"}`, status: 422, detail: `cannot be "done"`, field: "status", allowed: commands.Statuses()},
		{name: "a wrong value in a list's second item", body: `[` + one + `, {"ticket_id": "SEC-1", "status": "closed", "resolution": "fixed"}]`, status: 422, detail: "[1] resolution", field: "[1].resolution", allowed: commands.Resolutions()},
		{name: "a list's second item that changes nothing", body: `[` + one + `, {"ticket_id": "SEC-1"}]`, status: 422, detail: "changes nothing", field: "[1]"},
		{name: "a resolution without closed", body: `{"ticket_id": "SEC-1", "resolution": "action_taken"}`, status: 422, detail: "closed", field: "resolution"},
		{name: "no ticket", body: `{"status": "closed"}`, status: 422, detail: "is missing", field: "ticket_id"},
		{name: "an unknown appliance", body: `{"ticket_id": "SEC-1", "status": "new", "appliance": "lab"}`, status: 422, detail: "lab", field: "appliance", allowed: []string{"hq"}},
		{name: "an unknown field", body: `{"ticket_id": "SEC-1", "state": "closed"}`, status: 400, detail: "is an unknown field", field: "state"},
		{name: "a value of another type", body: `[{"ticket_id": 7, "status": "closed"}]`, status: 400, detail: "must be text", field: "[0].ticket_id"},
		{name: "no JSON", body: `ticket_id=SEC-1`, status: 400, detail: "not valid JSON"},
		{name: "no body", status: 400, detail: "body is missing"},
		{name: "an empty list", body: `[]`, status: 400, detail: "empty"},
		{name: "a form", body: `ticket_id=SEC-1`, headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, detail: "application/json"},
		{name: "a body that is too large", body: `{"ticket_id": "` + strings.Repeat("x", 1<<20) + `"}`, status: 413, detail: "larger than"},
		{name: "a key that is too long", body: one, headers: []string{"Idempotency-Key", strings.Repeat("k", 256)}, status: 400, detail: "255 bytes"},
		{name: "no token", body: one, anonymous: true, status: 401, detail: "token"},
		{name: "tickets that are not enabled", body: one, disabled: true, status: 404, detail: "tickets.enabled is false"},

		{name: "an unsigned webhook", path: "/jira", body: issue("done", "ana"), anonymous: true, status: 401, detail: "X-Hub-Signature"},
		{name: "a webhook with a wrong signature", path: "/jira", body: issue("done", "ana"), headers: []string{"X-Hub-Signature", signature("{}")}, anonymous: true, status: 401, detail: "X-Hub-Signature"},
		{name: "a webhook with the token instead of a signature", path: "/jira", body: issue("done", "ana"), status: 401, detail: "X-Hub-Signature"},
		{name: "a webhook whose secret cannot be read", path: "/jira", body: issue("done", "ana"), sign: true, unreadable: true, anonymous: true, status: 503, detail: "cannot be read"},
		{name: "an unmapped state", path: "/jira", body: issue("odd", "ana"), sign: true, anonymous: true, status: 422, detail: `"odd" is not mapped`, field: "issue.fields.status.statusCategory.key", allowed: []string{"done", "indeterminate", "new", "undefined"}},
		{name: "an issue without a key", path: "/jira", body: `{"issue": {"fields": {"status": {"name": "new"}}}}`, sign: true, anonymous: true, status: 422, detail: "is missing", field: "issue.key"},
		{name: "a ticket whose id is too long", path: "/jira", body: strings.Replace(issue("done", "ana"), "SEC-1", strings.Repeat("x", 600), 1), sign: true, anonymous: true, status: 422, detail: "longer than", field: "ticket_id"},
		{name: "a webhook that is not JSON", path: "/jira", body: "issue", sign: true, anonymous: true, status: 400, detail: "not valid JSON"},
		{name: "a webhook without a body", path: "/jira", sign: true, anonymous: true, status: 400, detail: "body is missing"},
		{name: "a webhook that is too large", path: "/jira", body: strings.Repeat(" ", webhookintake.MaxBody) + "{}", sign: true, anonymous: true, status: 413, detail: "larger than"},
		{name: "a webhook without a secret requires the token", path: "/otrs", body: one, anonymous: true, status: 401, detail: "token"},
		{name: "an unknown webhook", path: "/rt", body: one, status: 404, detail: "it has jira, otrs"},
		{name: "names of webhooks are not shown without the token", path: "/rt", body: one, anonymous: true, status: 401, detail: "token"},
		{name: "a webhook while tickets are not enabled", path: "/jira", body: issue("done", "ana"), disabled: true, status: 404, detail: "tickets.enabled is false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, server := open, openServer
			switch {
			case c.disabled:
				state, server = closed, closedServer
			case c.unreadable:
				state, server = mute, muteServer
			}
			headers := c.headers
			if !c.anonymous {
				headers = append(headers, "Authorization", "Bearer "+token)
			}
			if c.sign {
				headers = append(headers, "X-Hub-Signature", signature(c.body))
			}
			answer, body := send(t, http.MethodPost, server.URL+"/api/v1/tickets"+c.path, c.body, headers...)
			checkProblem(t, answer, body, c.status, c.detail)
			var p struct {
				Field   string
				Allowed []string
			}
			err := json.Unmarshal([]byte(body), &p)
			assert.True(t, err == nil && p.Field == c.field && slices.Equal(p.Allowed, c.allowed), body, err, "want the field", c.field, c.allowed)
			assert.True(t, !strings.Contains(body, secret) && !strings.Contains(body, "/run/x") && !strings.Contains(body, signature(c.body)), body, "reveals a secret")
			assert.Empty(t, state.commands(t), "commands were stored")
		})
	}
}

// failing is an Acceptor that returns an error.
type failing struct{ err error }

func (f failing) Accept(context.Context, string, []commands.Command) ([]checkpoint.Acceptance, error) {
	return nil, f.err
}

func (failing) Count(commands.Received) {}

func TestTemporaryErrorsAskForARetry(t *testing.T) {
	// The problem of another member, as its client returns it.
	for name, c := range map[string]struct {
		err        error
		detail     string
		retryAfter string
	}{
		"because too much waits":             {fmt.Errorf("store: %w", checkpoint.ErrCommandsFull), "ndrbridge tickets list --status pending", "60"},
		"because the bridge stops":           {checkpoint.ErrClosed, "closed", "5"},
		"because the member lost the log":    {fmt.Errorf("store: %w", checkpoint.ErrFenced), "store", "5"},
		"because an appliance was not asked": {errors.New("dc answered 502"), "dc answered 502", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			o := admin.Options{Token: token, Tickets: func() admin.Tickets { return admin.Tickets{Acceptor: failing{c.err}} }}
			_, server := intakes(t, o, readSecret)
			answer, body := request(t, http.MethodPost, server.URL+"/api/v1/tickets", `{"ticket_id": "SEC-1", "status": "new"}`, token)
			checkProblem(t, answer, body, http.StatusServiceUnavailable, c.detail)
			assert.Equal(t, answer.Header.Get("Retry-After"), c.retryAfter, "Retry-After")
		})
	}
}

func TestWebhookWithoutSecretAndTokenIsRefused(t *testing.T) {
	c, server := intakes(t, admin.Options{}, readSecret)
	answer, body := send(t, http.MethodPost, server.URL+"/api/v1/tickets/otrs", `{"ticket_id": "7", "status": "new"}`)
	checkProblem(t, answer, body, http.StatusForbidden, "no secret")
	answer, body = send(t, http.MethodPost, server.URL+"/api/v1/tickets/otrs", `{"ticket_id": "7", "status": "new"}`, "Host", "bridge.example")
	checkProblem(t, answer, body, http.StatusMisdirectedRequest, "admin.token")
	assert.Empty(t, c.commands(t), "commands were stored")
}

func TestClientTicketCommands(t *testing.T) {
	c := newControl(t)
	client, server := serve(t, c)
	ctx := t.Context()
	var put []checkpoint.Command
	done := time.Now().UTC().Truncate(time.Millisecond) // commands done long ago are deleted
	for i := range 5 {
		put = append(put, checkpoint.Command{
			Appliance: []string{"hq", "dc"}[i%2], Subject: fmt.Sprintf("SEC-%d", i/2), Accepted: time.UnixMilli(int64(1000 + i)).UTC(),
			Body: []byte(fmt.Sprintf(`{"ticket_id":"SEC-%d","status":"new"}`, i/2)),
		})
	}
	stored, err := c.store.Accept(ctx, put)
	require.NoError(t, err)
	rejected := stored[1].ID
	require.NoError(t, c.store.Finish(ctx, checkpoint.Outcome{ID: rejected, State: checkpoint.CommandRejected, Reason: "404 no <such> ticket", Done: done}))
	for _, test := range []struct {
		name   string
		filter admin.CommandsRequest
		want   []int // of put
	}{
		{"all", admin.CommandsRequest{}, []int{0, 1, 2, 3, 4}},
		{"up to a limit", admin.CommandsRequest{Limit: 2}, []int{0, 1}},
		{"after one", admin.CommandsRequest{After: stored[2].ID}, []int{3, 4}},
		{"an appliance's", admin.CommandsRequest{Appliance: "dc"}, []int{1, 3}},
		{"a ticket's", admin.CommandsRequest{Ticket: "SEC-1"}, []int{2, 3}},
		{"rejected ones", admin.CommandsRequest{Status: checkpoint.CommandRejected}, []int{1}},
		{"a pending one of a ticket at an appliance", admin.CommandsRequest{Appliance: "hq", Ticket: "SEC-1", Status: checkpoint.CommandPending}, []int{2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.filter.Limit = cmp.Or(test.filter.Limit, 100)
			page, err := admin.API.ListTicketCommands.Call(ctx, client, test.filter)
			var ids []uint64
			for _, i := range test.want {
				ids = append(ids, stored[i].ID)
			}
			assert.True(t, err == nil && slices.EqualFunc(page.Commands, ids, func(c admin.TicketCommand, id uint64) bool { return c.ID == id }), page, err, ids)
		})
	}
	one, err := admin.API.GetTicketCommand.Call(ctx, client, admin.OfCommand{ID: rejected})
	if err != nil || one.Status != checkpoint.CommandRejected || one.Reason != "404 no <such> ticket" || !one.Done.Equal(done) ||
		!bytes.Equal(one.Command, put[1].Body) || !one.Accepted.Equal(put[1].Accepted) || one.TicketID != "SEC-0" || one.Appliance != "dc" {
		t.Errorf("%+v (%v)", one, err)
	}
	zero, err := admin.API.GetTicketCommand.Call(ctx, client, admin.OfCommand{})
	assert.ErrorIs(t, err, admin.ErrUnknown, "the command 0", zero)
	err = admin.API.RetryTicketCommand.Do(ctx, client, admin.OfCommand{ID: stored[0].ID})
	assert.True(t, err != nil && strings.Contains(err.Error(), "only a rejected command"), "a pending one is retried", err)
	require.NoError(t, admin.API.RetryTicketCommand.Do(ctx, client, admin.OfCommand{ID: rejected}))
	one, err = admin.API.GetTicketCommand.Call(ctx, client, admin.OfCommand{ID: rejected})
	assert.True(t, err == nil && one.Status == checkpoint.CommandPending, one, err, "want it pending again")
	require.NoError(t, admin.API.DropTicketCommand.Do(ctx, client, admin.OfCommand{ID: rejected}))
	for name, err := range map[string]error{
		"show": func() error {
			_, err := admin.API.GetTicketCommand.Call(ctx, client, admin.OfCommand{ID: rejected})
			return err
		}(),
		"try":  admin.API.RetryTicketCommand.Do(ctx, client, admin.OfCommand{ID: rejected}),
		"drop": admin.API.DropTicketCommand.Do(ctx, client, admin.OfCommand{ID: rejected}),
	} {
		assert.ErrorIs(t, err, admin.ErrUnknown, name, "a dropped one")
	}
	for query, detail := range map[string]string{"?status=done": "pending, applied or rejected", "?limit=0": "from 1 to 1000", "?after=x": "the id of"} {
		answer, body := request(t, http.MethodGet, server.URL+"/api/v1/tickets"+query, "", token)
		checkProblem(t, answer, body, http.StatusBadRequest, detail)
	}
	answer, body := request(t, http.MethodGet, server.URL+"/api/v1/tickets/jira", "", token)
	checkProblem(t, answer, body, http.StatusNotFound, "an id is a number")
}
