package configs

import (
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTicketOpenerErrors(t *testing.T) {
	const jira = `system: jira, project: SEC`
	for _, c := range []struct {
		name          string
		webhook, rest string // of the sink; rest is behind it
		tickets       bool
		messages      []string // in the errors; none if it is valid
	}{
		{name: "jira", webhook: `url: "https://j.example", auth: {username: u, password: p}, ticket: {` + jira + `, labels: [soc], priorities: {high: High}}`, tickets: true},
		{name: "servicenow", webhook: `url: "https://s.example", ticket: {system: servicenow, fields: {assignment_group: SOC}, priorities: {unknown: "2"}}`, tickets: true},
		{name: "generic", webhook: `url: "https://g.example/t", template: '{"a": {{json .detection.title}}}', ticket: {system: generic, id: ticket.id, lookup: {url: "https://g.example/t?r={{.event.subject}}", id: tickets.0.id}}`, tickets: true},
		{name: "rt", webhook: `url: "https://rt.example", auth: {bearer: t}, ticket: {system: rt, project: SOC, priorities: {high: High}, fields: {CF.Site: hq}, follow: {states: {closed: {to: resolved}}, people: {ana: ana}}}`, tickets: true},
		{name: "redmine", webhook: `url: "https://r.example", auth: {bearer: k}, ticket: {system: redmine, project: soc, type: "3", priorities: {high: "4"}, follow: {states: {closed: {to: Closed}}, people: {ana: "6"}}}`, tickets: true},
		{name: "no queue", webhook: `url: "https://rt.example", ticket: {system: rt, type: Task}`, tickets: true, messages: []string{"ticket.project: is missing", "ticket.type: belongs to system jira"}},
		{name: "names instead of ids in Redmine", webhook: `url: "https://r.example", ticket: {system: redmine, project: soc, type: Bug, priorities: {high: High}, follow: {people: {ana: ana}}}`, tickets: true,
			messages: []string{"ticket.type: \"Bug\" is not an id", "ticket.priorities.high: \"High\" is not an id", "follow.people.ana: \"ana\" is not an id"}},
		{name: "links need tickets.enabled", webhook: `url: "https://j.example", ticket: {` + jira + `}`, messages: []string{"sinks[0].webhook.ticket.link", "set tickets.enabled to true, or link to false"}},
		{name: "no links need nothing", webhook: `url: "https://j.example", ticket: {` + jira + `, link: false}`},
		{name: "no system", webhook: `url: "https://j.example", ticket: {project: SEC}`, tickets: true, messages: []string{"ticket.system: is missing"}},
		{name: "another system", webhook: `url: "https://j.example", ticket: {system: trello}`, tickets: true, messages: []string{"ticket.system", "jira, servicenow"}},
		{name: "no project", webhook: `url: "https://j.example", ticket: {system: jira}`, tickets: true, messages: []string{"ticket.project: is missing"}},
		{name: "a label with a blank", webhook: `url: "https://j.example", ticket: {` + jira + `, labels: [ndr, a label]}`, tickets: true, messages: []string{"ticket.labels[1]"}},
		{name: "a severity that is none", webhook: `url: "https://j.example", ticket: {` + jira + `, priorities: {urgent: High}}`, tickets: true, messages: []string{"ticket.priorities.urgent", "critical, high"}},
		{name: "an urgency that is none", webhook: `url: "https://s.example", ticket: {system: servicenow, priorities: {high: High}}`, tickets: true, messages: []string{"ticket.priorities.high", "1 (high), 2 or 3"}},
		{name: "keys of another system", webhook: `url: "https://s.example", ticket: {system: servicenow, project: SEC, id: a}`, tickets: true, messages: []string{"ticket.project: belongs to system jira", "ticket.id: belongs to system generic"}},
		{name: "generic without anything", webhook: `url: "https://g.example", ticket: {system: generic, lookup: {page: a..b}}`, tickets: true,
			messages: []string{"webhook.template: is missing", "ticket.id: is missing", "lookup.url: is missing", "lookup.id: is missing", "a..b"}},
		{name: "a template for jira", webhook: `url: "https://j.example", template: "{}", ticket: {` + jira + `}`, tickets: true, messages: []string{"webhook.template: sets the body"}},
		{name: "a preset", webhook: `url: "https://j.example", preset: teams, ticket: {` + jira + `}`, tickets: true, messages: []string{"webhook.preset: is not supported with ticket"}},
		{name: "another method", webhook: `url: "https://j.example", method: PUT, ticket: {` + jira + `}`, tickets: true, messages: []string{"webhook.method"}},
		{name: "another mode", webhook: `url: "https://j.example", ticket: {` + jira + `}`, rest: `, mode: batch`, tickets: true, messages: []string{"sinks[0].mode"}},
		{name: "the field that identifies tickets is redacted", webhook: `url: "https://j.example", ticket: {` + jira + `}`, rest: `, redact: [detection.ticket_id]`, tickets: true, messages: []string{"sinks[0].redact: removes detection.ticket_id"}},
		{name: "a delay below 0", webhook: `url: "https://j.example", ticket: {` + jira + `, search_delay: -1s}`, tickets: true, messages: []string{"ticket.search_delay"}},
		{name: "a ticket that follows", webhook: `url: "https://j.example", ticket: {` + jira + `, follow: {comment: [status, noted], states: {closed: {to: Done, fields: {resolution: Done}}, reopened: {to: "11"}}}}`, tickets: true},
		{name: "a comment on what never comes", webhook: `url: "https://j.example", ticket: {` + jira + `, follow: {comment: [stauts]}}`, tickets: true, messages: []string{"follow.comment[0]", "status"}},
		{name: "a move on a status that is none", webhook: `url: "https://j.example", ticket: {` + jira + `, follow: {states: {done: {to: Done}}}}`, tickets: true, messages: []string{"follow.states.done"}},
		{name: "fields without a move", webhook: `url: "https://j.example", ticket: {` + jira + `, follow: {states: {closed: {fields: {resolution: Done}}}}}`, tickets: true, messages: []string{"follow.states.closed.to: is missing"}},
		{name: "a reopening without a closing", webhook: `url: "https://j.example", ticket: {` + jira + `, follow: {states: {reopened: {to: To Do}}}}`, tickets: true, messages: []string{"follow.states.reopened: is set without closed"}},
		{name: "a state of ServiceNow by its name", webhook: `url: "https://s.example", ticket: {system: servicenow, follow: {states: {closed: {to: Resolved}}}}`, tickets: true, messages: []string{"follow.states.closed.to", "write the number"}},
		{name: "a generic ticket that follows", webhook: `url: "https://g.example/t", template: '{}', ticket: {system: generic, id: a, follow: {comment: [status]}, group: {by: [type]}}`, tickets: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := sink(`webhook: {` + c.webhook + `}` + c.rest)
			if c.tickets {
				text += "\ntickets: {enabled: true}\n"
			}
			config, err := Parse("ndrbridge.yaml", []byte(text), nil)
			if len(c.messages) == 0 {
				require.NoError(t, err)
				_, err := config.Sinks[0].Webhook.TicketSystem()
				assert.NoError(t, err)
				return
			}
			require.True(t, err != nil, "it is taken")
			for _, want := range c.messages {
				assert.Contains(t, err.Error(), want, "lacks", err)
			}
		})
	}
}
