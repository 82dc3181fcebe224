package commands_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/commands"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func pointer(s string) *string { return &s }

// hide returns a command that hides what is like detection 12, changed by change unless that is nil.
func hide(change func(*commands.Hide)) commands.Command {
	h := &commands.Hide{DetectionID: 12, Expiration: "24h"}
	if change != nil {
		change(h)
	}
	return commands.Command{Hide: h, By: "ana"}
}

// note returns a command that adds to the note of detection 12, changed by change.
func note(change func(*commands.Command)) commands.Command {
	return with(commands.Command{DetectionID: 12, Note: "seen", By: "ana"}, change)
}

func with(c commands.Command, change func(*commands.Command)) commands.Command {
	change(&c)
	return c
}

func TestCommandsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name    string
		command commands.Command
		field   string // that is wrong; "-": the whole
		allowed []string
	}{
		{name: "a status with a ticket is enough", command: commands.Command{TicketID: "SEC-1", Status: "new"}},
		{name: "a resolution goes with closed", command: commands.Command{TicketID: "SEC-1", Status: "closed", Resolution: "action_taken"}},
		{name: "an empty assignee unassigns", command: commands.Command{TicketID: "SEC-1", Assignee: pointer("")}},
		{name: "a detection is linked without more", command: commands.Command{TicketID: "SEC-1", DetectionID: 25769804127}},
		{name: "a command is about a ticket", command: commands.Command{Status: "new"}, field: "ticket_id"},
		{name: "a ticket alone changes nothing", command: commands.Command{TicketID: "SEC-1", Appliance: "hq"}, field: "-"},
		{name: "a status is one of the appliance's", command: commands.Command{TicketID: "SEC-1", Status: "done"}, field: "status", allowed: commands.Statuses()},
		{name: "a resolution is one of the appliance's", command: commands.Command{TicketID: "SEC-1", Status: "closed", Resolution: "fixed"}, field: "resolution", allowed: commands.Resolutions()},
		{name: "a resolution does not go with another status", command: commands.Command{TicketID: "SEC-1", Status: "new", Resolution: "action_taken"}, field: "resolution"},
		{name: "a resolution does not go without a status", command: commands.Command{TicketID: "SEC-1", Resolution: "action_taken"}, field: "resolution"},
		{name: "a detection's id is above 0", command: commands.Command{TicketID: "SEC-1", DetectionID: -1}, field: "detection_id"},
		{name: "a ticket's id is bounded", command: commands.Command{TicketID: strings.Repeat("x", 513), Status: "new"}, field: "ticket_id"},
		{name: "a ticket's id is text", command: commands.Command{TicketID: "SEC-1\n", Status: "new"}, field: "ticket_id"},
		{name: "a ticket's id is not shown in another order", command: commands.Command{TicketID: "SEC-\u202e21", Status: "new"}, field: "ticket_id"},
		{name: "a ticket's id is visible as a whole", command: commands.Command{TicketID: "SEC-\u200b1", Status: "new"}, field: "ticket_id"},
		{name: "an assignee is not shown in another order", command: commands.Command{TicketID: "SEC-1", Assignee: pointer("\u2066ana")}, field: "assignee"},
		{name: "names of any script are text", command: commands.Command{TicketID: "チケット 1", Assignee: pointer("Zoë Ångström, آنا")}},
		{name: "a rule hides like a detection", command: hide(nil)},
		{name: "a rule hides one type whatever takes part", command: hide(func(h *commands.Hide) { h.Offender, h.Victim = "any", "any" })},
		{name: "a rule hides all types of an offender", command: hide(func(h *commands.Hide) { h.Victim, h.Types = "any", "all" })},
		{name: "a rule ends at a time", command: hide(func(h *commands.Hide) { h.Expiration = "2026-03-14T10:26:53+01:00" })},
		{name: "a rule is extended", command: commands.Command{RuleID: 1<<53 + 1, Extend: "48h", By: "ana"}},
		{name: "a rule is ended", command: commands.Command{RuleID: 7, End: true, By: "ana"}},
		{name: "a rule does not hide everything", command: hide(func(h *commands.Hide) { h.Offender, h.Victim, h.Types = "any", "any", "all" }), field: "hide"},
		{name: "a rule hides from a detection", command: hide(func(h *commands.Hide) { h.DetectionID = 0 }), field: "hide.detection_id"},
		{name: "an offender is any or as detected", command: hide(func(h *commands.Hide) { h.Offender = "10.0.0.1" }), field: "hide.offender", allowed: []string{"as_detected", "any"}},
		{name: "a victim is any or as detected", command: hide(func(h *commands.Hide) { h.Victim = "Any" }), field: "hide.victim", allowed: []string{"as_detected", "any"}},
		{name: "types are one or all", command: hide(func(h *commands.Hide) { h.Types = "port_scan" }), field: "hide.types", allowed: []string{"type", "all"}},
		{name: "a rule must end", command: hide(func(h *commands.Hide) { h.Expiration = "" }), field: "hide.expiration"},
		{name: "a rule does not end never", command: hide(func(h *commands.Hide) { h.Expiration = "never" }), field: "hide.expiration"},
		{name: "a description is text", command: hide(func(h *commands.Hide) { h.Description = "lab\x00" }), field: "hide.description"},
		{name: "a rule is hidden by someone", command: commands.Command{Hide: &commands.Hide{DetectionID: 12, Expiration: "24h"}}, field: "by"},
		{name: "a name is text", command: commands.Command{TicketID: "SEC-1", Status: "new", By: "ana\n"}, field: "by"},
		{name: "a rule is ended by someone", command: commands.Command{RuleID: 7, End: true}, field: "by"},
		{name: "a rule alone changes nothing", command: commands.Command{RuleID: 7, By: "ana"}, field: "-"},
		{name: "a rule is not extended and ended", command: commands.Command{RuleID: 7, Extend: "48h", End: true, By: "ana"}, field: "-"},
		{name: "a new rule has no id", command: with(hide(nil), func(c *commands.Command) { c.RuleID = 7 }), field: "rule_id"},
		{name: "a rule's id is above 0", command: commands.Command{RuleID: -7, End: true, By: "ana"}, field: "rule_id"},
		{name: "only a known rule is ended", command: commands.Command{End: true, By: "ana"}, field: "rule_id"},
		{name: "a rule is extended to a time", command: commands.Command{RuleID: 7, Extend: "tomorrow", By: "ana"}, field: "extend"},
		{name: "a rule has no ticket", command: with(hide(nil), func(c *commands.Command) { c.TicketID = "SEC-1" }), field: "-"},
		{name: "a note has lines", command: note(func(c *commands.Command) { c.Note = "one\r\n\ttwo\u200d" })},
		{name: "a note is not too long", command: note(func(c *commands.Command) { c.Note = strings.Repeat("x", 4<<10+1) }), field: "note"},
		{name: "a note says something", command: note(func(c *commands.Command) { c.Note = " \n" }), field: "note"},
		{name: "a note is text", command: note(func(c *commands.Command) { c.Note = "a\xff" }), field: "note"},
		{name: "a note is of someone", command: note(func(c *commands.Command) { c.By = "" }), field: "by"},
		{name: "a note is about a detection", command: note(func(c *commands.Command) { c.DetectionID = 0 }), field: "detection_id"},
		{name: "a note has a time and a key", command: note(func(c *commands.Command) { c.Time, c.Key = time.Unix(1, 0), "SEC-1/7" })},
		{name: "the key of a note is not too long", command: note(func(c *commands.Command) { c.Key = strings.Repeat("x", 129) }), field: "key"},
		{name: "the key of a note is one line", command: note(func(c *commands.Command) { c.Key = "a\nb" }), field: "key"},
		{name: "a ticket has no key", command: commands.Command{TicketID: "SEC-1", Status: "new", Key: "a"}, field: "-"},
		{name: "a note has no ticket", command: note(func(c *commands.Command) { c.TicketID = "SEC-1" }), field: "-"},
		{name: "a note hides nothing", command: note(func(c *commands.Command) { c.Hide = hide(nil).Hide }), field: "-"},
		{name: "an assignee is text", command: commands.Command{TicketID: "SEC-1", Assignee: pointer("a\xff")}, field: "assignee"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.command.Check()
			if c.field == "" {
				assert.NoError(t, err)
				return
			}
			var wrong *commands.FieldError
			require.True(t, errors.As(err, &wrong), err, "is not a FieldError")
			field := strings.TrimPrefix(c.field, "-")
			assert.True(t, wrong.Field == field && slices.Equal(wrong.Allowed, c.allowed), wrong, "want the field", field, c.allowed)
		})
	}
}

func TestCommandsAreParsed(t *testing.T) {
	for _, c := range []struct {
		name, text string
		n          int
		several    bool
		field      string // of the error
		problem    string
	}{
		{name: "one", text: ` {"ticket_id": "SEC-1", "status": "closed"}`, n: 1},
		{name: "several", text: "\n[{\"ticket_id\": \"SEC-1\"}, {\"ticket_id\": \"SEC-2\"}]", n: 2, several: true},
		{name: "a field that is null is left as it is", text: `{"ticket_id": "SEC-1", "assignee": null, "resolution": null}`, n: 1},
		{name: "a rule's id is exact", text: `{"rule_id": 9007199254740993, "end": true, "by": "ana"}`, n: 1},
		{name: "an unknown field of hide", text: `{"hide": {"detection": 12}}`, field: "hide.detection", problem: "detection_id, offender, victim, types, expiration, description"},
		{name: "a word instead of a truth value", text: `{"rule_id": 7, "end": "yes"}`, field: "end", problem: "must be true or false"},
		{name: "an unknown field", text: `{"ticket_id": "SEC-1", "state": "closed"}`, field: "state", problem: "ticket_id, appliance, detection_id, status, resolution, assignee"},
		{name: "field names are case-sensitive", text: `{"Ticket_ID": "SEC-1"}`, field: "Ticket_ID", problem: "is an unknown field"},
		{name: "a number instead of text", text: `[{"ticket_id": "a"}, {"ticket_id": 7}]`, several: true, field: "[1].ticket_id", problem: "must be text"},
		{name: "text instead of a number", text: `{"detection_id": "7"}`, field: "detection_id", problem: "must be a whole number"},
		{name: "a fraction as an id", text: `{"detection_id": 7.5}`, field: "detection_id", problem: "must be a whole number"},
		{name: "an id of more than 64 bits", text: `{"detection_id": 99999999999999999999}`, field: "detection_id", problem: "must be a whole number"},
		{name: "a duplicate field", text: `{"ticket_id": "a", "ticket_id": "b"}`, problem: "duplicate"},
		{name: "half a surrogate pair", text: `{"ticket_id": "\ud800"}`, problem: "not valid JSON"},
		{name: "bytes that are not UTF-8", text: "{\"ticket_id\": \"\xff\"}", problem: "not valid JSON"},
		{name: "an empty list", text: `[]`, several: true, problem: "empty"},
		{name: "an empty body", text: ``, problem: "not valid JSON"},
		{name: "a string", text: `"closed"`, problem: "must be an object"},
		{name: "null", text: `null`, problem: ""},
		{name: "truncated JSON", text: `{"ticket_id": "a"`, problem: "not valid JSON"},
		{name: "a second value after the first", text: `{"ticket_id": "a"} {}`, problem: "not valid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, several, err := commands.Parse([]byte(c.text))
			if c.n > 0 {
				assert.True(t, err == nil && len(all) == c.n && several == c.several, len(all), "commands, several", several, err)
				return
			}
			if c.name == "null" { // Check refuses the result
				assert.True(t, err != nil || all[0].Check() != nil, "null is accepted")
				return
			}
			var wrong *commands.SyntaxError
			require.True(t, errors.As(err, &wrong) && errors.Is(err, commands.ErrSyntax), err, "is not a SyntaxError")
			assert.True(t, wrong.Field == c.field && strings.Contains(wrong.Problem, c.problem), wrong.Field, wrong.Problem, c.field, c.problem)
		})
	}
}

// Any input is either refused with a SyntaxError or parsed into commands that Check can check.
func FuzzParse(f *testing.F) {
	f.Add(`{"ticket_id": "SEC-1", "status": "closed", "resolution": "action_taken", "assignee": null, "detection_id": 7}`)
	f.Add(`[{"ticket_id": "a"}, {"assignee": ""}]`)
	f.Add(`{"ticket_id": "\ud800"}`)
	f.Fuzz(func(t *testing.T, text string) {
		all, several, err := commands.Parse([]byte(text))
		if err != nil {
			assert.True(t, errors.Is(err, commands.ErrSyntax) && all == nil, err, len(all), "commands")
			return
		}
		assert.True(t, len(all) != 0 && (len(all) <= 1 || several), len(all), "commands, several", several)
		for _, c := range all {
			var wrong *commands.FieldError
			err := c.Check()
			assert.True(t, err == nil || errors.As(err, &wrong), err, "is not a FieldError")
		}
	})
}
