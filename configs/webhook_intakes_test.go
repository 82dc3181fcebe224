package configs

import (
	"net/http"
	"slices"
	"testing"

	"ndrbridge/internal/commands"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTicketKeyErrors(t *testing.T) {
	const at = "tickets.webhooks."
	expectErrors(t, func(text string) string { return "tickets: {enabled: true, webhooks: {" + text + "}}" + valid }, []mistake{
		{"a webhook that anybody could send", `jira: {}`, at + "jira.secret_file: is missing, and so is admin.token_file"},
		{"a way to show a secret that is not there", `jira: {verify: header}`, at + "jira.secret_file: is missing"},
		{"a way that there is not", `jira: {secret: s, verify: hmac}`, at + `jira.verify: "hmac" is not one of signature, header, basic`},
		{"a password without its user", `servicenow: {secret: s, verify: basic}`, at + "servicenow.username: is missing; set it, or the variable NDRBRIDGE_TICKETS_WEBHOOKS_SERVICENOW_USERNAME"},
		{"a user without a password", `servicenow: {secret: s, username: now}`, at + "servicenow.verify: is missing; username requires basic"},
		{"a header beside Authorization", `servicenow: {secret: s, verify: basic, username: now, header: X-A}`, at + "servicenow.header: cannot be combined with verify: basic"},
		{"a header that is none", `servicenow: {secret: s, header: "X A"}`, at + `servicenow.header: "X A" is not the name of a header`},
		{"a status that no appliance has", `jira: {secret: s, map: {statuses: {Done: finished}}}`, at + `jira.map: statuses: "done" is mapped to "finished", which is not one of new, in_progress, closed, acknowledged, ignore`},
		{"a path that is none", `jira: {secret: s, map: {ticket_id: issue..key}}`, at + `jira.map.ticket_id: "issue..key" is not a path`},
		{"a list with a path that is none", `jira: {secret: s, map: {status: [a, b..c]}}`, at + `jira.map.status[1]: "b..c" is not a path`},
		{"a table that is a list", `jira: {secret: s, map: {statuses: [Done]}}`, at + "jira.map.statuses: expected names with values, found a list"},
		{"a value twice", `jira: {secret: s, map: {statuses: {Done: closed, Done: new}}}`, "is set twice"},
		{"a system without a name", `generic: [{secret: s}]`, at + "generic[0].name: is missing"},
		{"a system with a name that is taken", `generic: [{name: jira, secret: s}]`, at + `generic[0].name: "jira" is also the name of tickets.webhooks.jira`},
	})
}

func TestTicketSystemsAreReadAsConfigured(t *testing.T) {
	config := parse(t, `
admin: {token: t}
tickets:
  enabled: true
  webhooks:
    jira: {secret: s, map: {statuses: {Waiting: acknowledged}}}
    generic: [{name: otrs, accounts: [bridge]}, {name: rt, secret: s, verify: basic, username: rt}]
`+valid, "NDRBRIDGE_TICKETS_WEBHOOKS_SERVICENOW_SECRET=s", "NDRBRIDGE_TICKETS_WEBHOOKS_SERVICENOW_MAP_STATUSES=10: in_progress, 11: ignore",
		"NDRBRIDGE_TICKETS_WEBHOOKS_GENERIC_1_MAP_TICKET_ID=id")
	receivers, err := config.Tickets.Webhooks.Receivers()
	require.NoError(t, err)
	for _, test := range []struct {
		name, system, body string
		want               commands.Command
	}{
		{"a table of the file's", "jira", `{"issue": {"key": "A-1", "fields": {"status": {"name": "waiting"}}}}`, commands.Command{TicketID: "A-1", Status: "acknowledged"}},
		{"what is built in stays beside it", "jira", `{"issue": {"key": "A-1", "fields": {"status": {"statusCategory": {"key": "done"}}}}}`, commands.Command{TicketID: "A-1", Status: "closed"}},
		{"a table of the environment's", "servicenow", `{"number": "INC1", "state": 10}`, commands.Command{TicketID: "INC1", Status: "in_progress"}},
		{"a path of the environment's", "rt", `{"id": 7, "status": "new"}`, commands.Command{TicketID: "7", Status: "new"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			notice := require.Value(receivers[test.system].Read(http.Header{}, []byte(test.body)))(t)
			assert.Equal(t, notice.Command, test.want)
		})
	}
	var verifying []string
	for name, r := range receivers {
		if r.Verifies() {
			verifying = append(verifying, name)
		}
	}
	if slices.Sort(verifying); !slices.Equal(verifying, []string{"jira", "rt", "servicenow"}) {
		t.Errorf("%v verify; without a secret it is the token of admin that lets in", verifying)
	}
	t.Run("a secret in its default header lets ServiceNow in", func(t *testing.T) {
		assert.NoError(t, receivers["servicenow"].Verify(http.Header{"X-Webhook-Secret": {"s"}}, nil))
	})
}
