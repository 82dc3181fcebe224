package commands_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/sinks"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// The rules of withRules. The ids of rules that are made later are higher.
const (
	activeRule int64 = 1<<53 + 1 + iota
	endedRule
	endlessRule
)

// scan is a detection of withRules.
const scan = 25769803779

// withRules returns a stand-in with a detection and three rules that hide nothing. The first ends
// at a time, and the second was ended.
func withRules(until time.Time) *standin.Appliance {
	a := standin.New(standin.Options{Seed: 1, Size: 1000})
	a.Add(standin.Detection{ID: scan, Type: "port_scan", Categories: []string{"sec", "sec.recon"}, ModTime: 1000, UpdateTime: 1000,
		Participants: []standin.Participant{
			{ID: 1, Role: "offender", ObjectType: "ipaddr", ObjectValue: "10.1.2.3"},
			{ID: 2, Role: "victim", ObjectType: "ipaddr", ObjectValue: "203.0.113.9", External: true},
		}})
	for id, fields := range map[int64]map[string]any{
		activeRule: {"expiration": until.UnixMilli()}, endedRule: {"expiration": until.UnixMilli(), "enabled": false}, endlessRule: {"expiration": nil},
	} {
		rule := map[string]any{"id": id, "author": "eve", "detection_type": "hacking_tools", "offender": "Any", "victim": "Any", "create_time": 1}
		for name, value := range fields {
			rule[name] = value
		}
		a.AddRule(rule)
	}
	return a
}

// ruleOf returns a rule of the stand-in, or nil.
func ruleOf(a *standin.Appliance, id int64) map[string]any {
	for _, rule := range a.Rules() {
		if rule["id"] == id {
			return rule
		}
	}
	return nil
}

// changing serves a stand-in, and has change answer the requests that are not GET unless it is nil.
func changing(t *testing.T, a *standin.Appliance, change func(w http.ResponseWriter, r *http.Request)) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && change != nil {
			change(w, r)
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestCommandsOnRules(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	day := now.Add(24 * time.Hour)
	until := func(end time.Time, change func(*commands.Hide)) commands.Command {
		return hide(func(h *commands.Hide) {
			h.DetectionID, h.Expiration, h.Description = scan, end.Format(time.RFC3339Nano), "the inventory scan"
			if change != nil {
				change(h)
			}
		})
	}
	extend := func(id int64, end time.Time) commands.Command {
		return commands.Command{RuleID: id, Extend: end.Format(time.RFC3339Nano), By: "ana"}
	}
	end := func(id int64) commands.Command { return commands.Command{RuleID: id, End: true, By: "ana"} }
	answer := func(status int) func(*standin.Appliance) http.HandlerFunc {
		return func(*standin.Appliance) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		}
	}
	// without returns a change that a description of a new rule does not survive, and an answer
	// with the given header and body.
	without := func(header, body string) func(*standin.Appliance) http.HandlerFunc {
		return func(a *standin.Appliance) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				var rule map[string]any
				sent, err := io.ReadAll(r.Body)
				if err == nil {
					err = json.Unmarshal(sent, &rule)
				}
				if err != nil {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				delete(rule, "description")
				sent, _ = json.Marshal(rule)
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
				a.ServeHTTP(httptest.NewRecorder(), r)
				id := strconv.FormatInt(endlessRule+1, 10)
				if header != "" {
					w.Header().Set("Location", header+id)
				}
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, strings.ReplaceAll(body, "ID", id))
			}
		}
	}
	for _, c := range []struct {
		name    string
		command commands.Command
		change  func(*standin.Appliance) http.HandlerFunc // answers other requests than GET; nil: the stand-in
		became  checkpoint.CommandState
		halted  bool
		says    string
		rule    int64          // that is looked at; 0: the one that was made
		fields  map[string]any // of it
		event   string         // the end of its data
	}{
		{name: "hide like a detection", command: until(day, nil), became: checkpoint.CommandApplied, fields: map[string]any{
			"detection_type": "port_scan", "enabled": true, "expiration": day.UnixMilli(), "offender": "10.1.2.3", "victim": "203.0.113.9",
			"description": "[ndrbridge 1-1764405513000] ana: the inventory scan",
		}, event: `"action":"hide","id":9007199254740996,"detection_id":25769803779,"expiration":` + strconv.FormatInt(day.UnixMilli(), 10) + `,"by":"ana"}}`},
		{name: "hide all types of whoever scans", command: until(day, func(h *commands.Hide) { h.Victim, h.Types, h.Description = "any", "all", "" }), became: checkpoint.CommandApplied,
			fields: map[string]any{"detection_type": "all_security", "offender": "10.1.2.3", "victim": "Any", "description": "[ndrbridge 1-1764405513000] ana"}},
		{name: "the path of a new rule identifies it", command: until(day, nil), change: without("/api/v1/detections/rules/hiding/", ""), became: checkpoint.CommandApplied,
			fields: map[string]any{"expiration": day.UnixMilli(), "description": ""}, event: `"id":9007199254740996,"detection_id":25769803779,"expiration":` + strconv.FormatInt(day.UnixMilli(), 10) + `,"by":"ana"}}`},
		{name: "the body of a new rule identifies it", command: until(day, nil), change: without("", `{"id": ID, "enabled": true}`), became: checkpoint.CommandApplied,
			fields: map[string]any{"expiration": day.UnixMilli(), "description": ""}},
		{name: "a new rule that nothing identifies is reported", command: until(day, nil), change: without("", ""), became: checkpoint.CommandRejected,
			says: "does not list it: look for [ndrbridge 1-1764405513000] there before a retry"},
		{name: "a detection that is not there is rejected", command: until(day, func(h *commands.Hide) { h.DetectionID = 77 }), became: checkpoint.CommandRejected, says: "404",
			event: `"action":"hide","detection_id":77,"by":"ana","reason":"read the detection to hide:`},
		{name: "an end that has passed meanwhile is rejected", command: until(now.Add(-time.Second), nil), became: checkpoint.CommandRejected, says: "which is past: send a new command"},
		{name: "a rule that the appliance refuses is rejected", command: until(day, nil), change: answer(400), became: checkpoint.CommandRejected, says: "400"},
		{name: "a rule too many is rejected", command: until(day, nil), change: answer(422), became: checkpoint.CommandRejected, says: "422"},
		{name: "a missing privilege halts", command: until(day, nil), change: answer(403), became: checkpoint.CommandPending, halted: true, says: "403"},
		{name: "a server error is retried", command: until(day, nil), change: answer(500), became: checkpoint.CommandPending, says: "500"},
		{name: "extend", command: extend(activeRule, day), became: checkpoint.CommandApplied, rule: activeRule, fields: map[string]any{"enabled": true, "expiration": day.UnixMilli()},
			event: `"action":"extend","id":9007199254740993,"expiration":` + strconv.FormatInt(day.UnixMilli(), 10) + `,"by":"ana"}}`},
		{name: "a rule is extended once", command: extend(activeRule, now.Add(time.Hour)), change: answer(400), became: checkpoint.CommandApplied, rule: activeRule, fields: map[string]any{"expiration": now.Add(time.Hour).UnixMilli()}},
		{name: "a rule is not shortened", command: extend(activeRule, now.Add(time.Minute)), became: checkpoint.CommandRejected, says: "9007199254740993 lasts until", rule: activeRule, fields: map[string]any{"expiration": now.Add(time.Hour).UnixMilli()}},
		{name: "a rule that never ends is not shortened", command: extend(endlessRule, day), became: checkpoint.CommandRejected, says: "lasts forever already", rule: endlessRule, fields: map[string]any{"expiration": nil}},
		{name: "a rule that was ended is not extended", command: extend(endedRule, day), became: checkpoint.CommandRejected, says: "was ended", rule: endedRule, fields: map[string]any{"enabled": false}},
		{name: "a rule that is gone is rejected", command: extend(7, day), became: checkpoint.CommandRejected, says: "the appliance has no tuning rule 7",
			event: `"action":"extend","id":7,"by":"ana","reason":"the appliance has no tuning rule 7"}}`},
		{name: "a rule that goes meanwhile is rejected", command: end(activeRule), change: answer(404), became: checkpoint.CommandRejected, says: "404"},
		{name: "an extension that has no effect is reported", command: extend(activeRule, day), change: answer(204), became: checkpoint.CommandRejected, says: "accepted the change, but the tuning rule 9007199254740993 lasts until"},
		{name: "end", command: end(activeRule), became: checkpoint.CommandApplied, rule: activeRule, fields: map[string]any{"enabled": false, "expiration": now.Add(time.Hour).UnixMilli()},
			event: `"action":"end","id":9007199254740993,"expiration":` + strconv.FormatInt(now.Add(time.Hour).UnixMilli(), 10) + `,"by":"ana"}}`},
		{name: "a rule is ended once", command: end(endedRule), change: answer(400), became: checkpoint.CommandApplied, rule: endedRule, fields: map[string]any{"enabled": false}},
		{name: "an end that has no effect is reported", command: end(activeRule), change: answer(204), became: checkpoint.CommandRejected, says: "is still enabled: end it there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := withRules(now.Add(time.Hour))
			var change http.HandlerFunc
			if c.change != nil {
				change = c.change(a)
			}
			store := newStore(t)
			w := newWriterOf(t, commands.KindRule, store, changing(t, a, change), nil)
			acceptRule(t, store, c.command)
			w.Step(t.Context())
			w.Step(t.Context())
			got, _, err := store.Command(t.Context(), 1)
			require.NoError(t, err)
			status := w.Status()
			text := got.Reason + status.Error
			assert.True(t, got.State == c.became && (status.State == sinks.StateHalted) == c.halted && strings.Contains(text, c.says) && (c.says != "" || text == ""), got.State, status.State, text)
			for name, want := range c.fields {
				value := ruleOf(a, cmp.Or(c.rule, endlessRule+1))[name]
				if participant, ok := value.(map[string]any); ok {
					value = participant["object_value"]
				}
				if number, ok := value.(json.Number); ok {
					value, _ = number.Int64()
				}
				assert.Equal(t, value, want, name)
			}
			events := require.Value(store.Read(t.Context(), 0, checkpoint.Batch{}))(t)
			if c.became == checkpoint.CommandPending {
				assert.Empty(t, events, "events")
				return
			}
			require.Equal(t, len(events), 1)
			e := events[0].Event
			assert.True(t, e.Type == "io.ndrbridge.rule."+string(c.became) && strings.Contains(string(e.Data()), c.event), e.Type, string(e.Data()))
		})
	}
}

// acceptRule accepts a command on a rule, at a fixed time.
func acceptRule(t *testing.T, store *checkpoint.Store, c commands.Command) {
	body := require.Value(json.Marshal(c))(t)
	require.Value(store.Accept(t.Context(), []checkpoint.Command{{Appliance: "hq", Body: body, Accepted: time.UnixMilli(1764405513000)}}))(t)
}

func TestARuleIsMadeOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken func(a *standin.Appliance, w http.ResponseWriter, r *http.Request) // answers until the bridge starts again
	}{
		{"if the answer is lost", func(a *standin.Appliance, _ http.ResponseWriter, r *http.Request) {
			a.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}},
		{"if the answer is a login page", func(a *standin.Appliance, w http.ResponseWriter, r *http.Request) {
			a.ServeHTTP(httptest.NewRecorder(), r)
			io.WriteString(w, "<html>Sign in</html>")
		}},
		{"if the bridge stops before it has read the rule back", func(a *standin.Appliance, w http.ResponseWriter, r *http.Request) {
			a.ServeHTTP(w, r)
			a.SetHazards(standin.Hazards{Reset: 1})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, store := withRules(time.Now().Add(time.Hour)), newStore(t)
			acceptRule(t, store, hide(func(h *commands.Hide) {
				h.DetectionID, h.Expiration = scan, time.Now().Add(24*time.Hour).Format(time.RFC3339)
			}))
			w := newWriterOf(t, commands.KindRule, store, changing(t, a, func(w http.ResponseWriter, r *http.Request) { c.broken(a, w, r) }), nil)
			w.Step(t.Context())
			w.Step(t.Context())
			require.True(t, states(t, store) == "pending" && len(a.Rules()) == 4, states(t, store), len(a.Rules()), "rules")
			a.SetHazards(standin.Hazards{})
			w = newWriterOf(t, commands.KindRule, store, changing(t, a, nil), nil)
			w.Step(t.Context())
			w.Step(t.Context())
			require.True(t, states(t, store) == "applied" && len(a.Rules()) == 4, states(t, store), len(a.Rules()), "rules")
			events := require.Value(store.Read(t.Context(), 0, checkpoint.Batch{}))(t)
			assert.True(t, len(events) == 1 && strings.Contains(string(events[0].Event.Data()), `"id":9007199254740996`), events)
		})
	}
}

func TestTheDescriptionOfARuleNamesWhoAskedForIt(t *testing.T) {
	store := newStore(t)
	acceptRule(t, store, hide(nil))
	acceptRule(t, store, commands.Command{RuleID: 12, End: true, By: "ana"})
	const mark = "[ndrbridge 1-1764405513000]"
	for name, c := range map[string]struct{ appliance, description, by string }{
		"of the command":                 {"hq", mark + " ana: the inventory scan", "ana"},
		"which somebody changed":         {"hq", mark + " eve: for ever", "ana"},
		"of a person":                    {"hq", "the inventory scan", ""},
		"without a number":               {"hq", "[ndrbridge ]", ""},
		"of a command that is forgotten": {"hq", "[ndrbridge 3-1764405513000] ana", ""},
		"of another state's command":     {"hq", "[ndrbridge 1-1764405513001] ana", ""},
		"of another appliance's command": {"dc", mark + " ana", ""},
		"of a command that made no rule": {"hq", "[ndrbridge 2-1764405513000] ana", ""},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, require.Value(commands.RuleAskedBy(t.Context(), store, c.appliance, c.description))(t), c.by)
		})
	}
}

func TestAHaltedKindDoesNotHaltTheOther(t *testing.T) {
	a, _ := withTicket(t)
	url := changing(t, a, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/rules/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		a.ServeHTTP(w, r)
	})
	store := newStore(t)
	id := a.AddRule(map[string]any{"detection_type": "port_scan", "offender": "Any", "victim": "Any", "expiration": nil, "author": "eve", "create_time": 1})
	accept(t, store, commands.Command{RuleID: id, End: true, By: "ana"}, commands.Command{TicketID: "SEC-1", Status: "acknowledged"})
	rules, tickets := newWriterOf(t, commands.KindRule, store, url, nil), newWriter(t, store, url, nil)
	for range 2 {
		rules.Step(t.Context())
		tickets.Step(t.Context())
	}
	assert.True(t, states(t, store) == "pending applied" && rules.Status().State == sinks.StateHalted && tickets.Status().State == sinks.StateRunning,
		states(t, store), rules.Status(), tickets.Status())
}
