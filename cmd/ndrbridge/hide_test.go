package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/internal/hiding"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// scans adds detections to the appliance, of which the first is 25769803701.
func (i *installation) scans() {
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC).UnixMilli()
	for n, d := range []struct {
		kind, status     string
		offender, victim int64
		risk             int
	}{
		{"port_scan", "new", 101, 102, 85},
		{"port_scan", "closed", 101, 102, 20},
		{"port_scan", "in_progress", 101, 102, 50},
		{"port_scan", "new", 101, 103, 85},
		{"port_scan", "new", 104, 102, 85},
		{"port_scan", "new", 104, 103, 85},
		{"hacking_tools", "new", 101, 102, 85},
	} {
		id := 25769803701 + int64(n)
		i.appliance.Add(standin.Detection{
			ID: id, Type: d.kind, Title: "Scan \x1b" + fmt.Sprint(n+1), Status: standin.Text(d.status), RiskScore: &d.risk,
			Categories: []string{"sec", "sec.recon"}, ModTime: at + int64(n)*1000, UpdateTime: at, CreateTime: at,
			Participants: []standin.Participant{
				{ID: 2 * id, Role: "offender", ObjectType: "device", ObjectID: d.offender, ObjectValue: "10.0.0.1"},
				{ID: 2*id + 1, Role: "victim", ObjectType: "device", ObjectID: d.victim, ObjectValue: "10.0.0.2"},
			},
		})
	}
}

func TestHideCountsWhatARuleWouldHaveHidden(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.scans()
	stop := i.start()
	defer stop()
	i.await("detections", 7)
	age := regexp.MustCompile(`it reaches back \d+\w+|"journal_since":"[^"]*"`)
	const notes = `
These are the last versions in the journal. Not known are detections that the bridge has not
read, or no longer holds. The rule hides a detection whatever its properties are.
`
	for _, running := range []bool{true, false} {
		flags := i.byAddress()
		if !running {
			stop()
			flags = []string{"--config", i.config}
		}
		for _, c := range []struct {
			name  string
			flags []string
			want  string
		}{
			{"as detected", nil, `rule        port_scan, offender device 101, victim device 102
journal     7 detections of hq; AGO
would hide  3 detections, 2 of them open
status      closed 1, in_progress 1, new 1
severity    high 1, medium 1, low 1
and more    1 with --offender any
            1 with --victim any
            3 with --offender any --victim any

ID           MODIFIED              STATUS       SEVERITY  TITLE
25769803703  2026-03-01T08:00:02Z  in_progress  medium    Scan  3
25769803702  2026-03-01T08:00:01Z  closed       low       Scan  2
25769803701  2026-03-01T08:00:00Z  new          high      Scan  1
` + notes},
			{"any victim, of all types", []string{"--victim", "any", "--all-types"}, `rule        all_security, offender device 101, victim any
journal     7 detections of hq; AGO
would hide  5 detections, 4 of them open
status      closed 1, in_progress 1, new 3
severity    high 3, medium 1, low 1

ID           MODIFIED              STATUS       SEVERITY  TITLE
25769803707  2026-03-01T08:00:06Z  new          high      Scan  7
25769803704  2026-03-01T08:00:03Z  new          high      Scan  4
25769803703  2026-03-01T08:00:02Z  in_progress  medium    Scan  3
25769803702  2026-03-01T08:00:01Z  closed       low       Scan  2
25769803701  2026-03-01T08:00:00Z  new          high      Scan  1
` + notes},
			{"in JSON", []string{"--offender", "any", "--appliance", "hq", "--json"}, `{"appliance":"hq","rule":{"detection_type":"port_scan","offender":"Any","victim":{"object_type":"device","object_id":102}},AGO,` +
				`"detections":7,"hidden":4,"open":3,"unknown":0,"by_status":{"closed":1,"in_progress":1,"new":2},"by_severity":{"high":2,"low":1,"medium":1},` +
				`"newest":[{"id":25769803705,"mod_time":"2026-03-01T08:00:04Z","status":"new","severity":"high","title":"Scan \u001b5"}`},
		} {
			args := append([]string{"hide", "25769803701", "--dry-run"}, c.flags...)
			got, errs := i.run(0, append(args, flags...)...)
			got = age.ReplaceAllString(got, "AGO")
			if !strings.HasPrefix(got, c.want) || errs != "" {
				t.Errorf("%s, running: %t\ngot\n%s%s\nwant\n%s", c.name, running, got, errs, c.want)
			}
		}
		i.expect(flags, []expected{
			{[]string{"hide", "25769803799", "--dry-run"}, 1, []string{"unknown detection 25769803799"}},
			{[]string{"hide", "25769803701", "--dry-run", "--appliance", "branch"}, 1, []string{`unknown appliance "branch"`}},
		})
	}
}

func TestTheLastVersionsInTheJournalAreCounted(t *testing.T) {
	event := func(kind, appliance, detection string) transform.Event {
		return require.Value(transform.New(transform.Attributes{
			ID: "1", Source: "ndrbridge://" + appliance + "/detections", Appliance: appliance, Type: "io.ndrbridge.detection." + kind, RecordedTime: time.Unix(1, 0),
		}, []byte(`{"detection":`+detection+`}`)))(t)
	}
	by := func(id int, fields string) string {
		return fmt.Sprintf(`{"id":%d,"mod_time":1774084698715,"type":"port_scan",%s}`, id, fields)
	}
	const involved, other = `"participants":[{"role":"offender","object_type":"device","object_id":5}]`, `"participants":[{"role":"offender","object_type":"device","object_id":6}]`
	for name, c := range map[string]struct {
		events []transform.Event
		want   string
	}{
		"one detection":                  {[]transform.Event{event("created", "hq", by(1, involved))}, "1 of 1, 1 open, 0 unknown, 0 more, map[none:1]"},
		"one of another appliance":       {[]transform.Event{event("created", "branch", by(1, involved))}, "0 of 0, 0 open, 0 unknown, 0 more, map[]"},
		"two versions":                   {[]transform.Event{event("created", "hq", by(1, involved)), event("updated", "hq", by(1, `"status":"closed",`+involved))}, "1 of 1, 0 open, 0 unknown, 0 more, map[closed:1]"},
		"a version with others":          {[]transform.Event{event("created", "hq", by(1, involved)), event("updated", "hq", by(1, other))}, "0 of 1, 0 open, 0 unknown, 1 more, map[]"},
		"one that is hidden already":     {[]transform.Event{event("created", "hq", by(1, involved)), event("hidden", "hq", by(1, `"status":"new"`))}, "1 of 1, 0 open, 0 unknown, 0 more, map[none:1]"},
		"one that is shown again":        {[]transform.Event{event("created", "hq", by(1, involved)), event("gone", "hq", by(1, `"a":1`)), event("shown", "hq", by(1, `"a":1`))}, "1 of 1, 1 open, 0 unknown, 0 more, map[none:1]"},
		"a follow-up without a version":  {[]transform.Event{event("hidden", "hq", by(1, involved))}, "0 of 0, 0 open, 0 unknown, 0 more, map[]"},
		"one without known participants": {[]transform.Event{event("created", "hq", by(1, `"participants":null`))}, "0 of 1, 0 open, 1 unknown, 0 more, map[]"},
		"one of another type":            {[]transform.Event{event("created", "hq", `{"id":1,"mod_time":1774084698715,"type":"x",`+involved+`}`)}, "0 of 1, 0 open, 0 unknown, 0 more, map[]"},
		"one with the same id elsewhere": {[]transform.Event{event("created", "hq", by(1, involved)), event("created", "branch", by(1, other))}, "1 of 1, 1 open, 0 unknown, 0 more, map[none:1]"},
	} {
		t.Run(name, func(t *testing.T) {
			target := require.Value(transform.ParseDetection([]byte(by(9, involved)), false))(t)
			counter := require.Value(newHideCounter("hq", hiding.Scope{AnyVictim: true}, target))(t)
			for _, e := range c.events {
				require.NoError(t, counter.add(e))
			}
			got := counter.result()
			require.Equal(t, len(got.Wider), 1)
			assert.Equal(t, fmt.Sprintf("%d of %d, %d open, %d unknown, %d more, %v", got.Hidden, got.Detections, got.Open, got.Unknown, got.Wider[0].More, got.ByStatus), c.want)
		})
	}
}

// tuningRule is a rule of the appliance.
type tuningRule struct {
	ID          int64
	Enabled     bool
	Description string
	Expiration  int64
	Hidden      int `json:"detections_hidden"`
}

// rules returns the rules of the appliance.
func (i *installation) rules() (rules []tuningRule) {
	i.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/api/v1/detections/rules/hiding", nil)
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	answer := httptest.NewRecorder()
	i.appliance.ServeHTTP(answer, r)
	require.NoError(i.t, json.Unmarshal(answer.Body.Bytes(), &rules))
	return rules
}

func TestRulesAreMadeExtendedAndEnded(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.takeCommands(true)
	i.scans()
	flags := []string{"--config", i.config}
	i.expect(flags, []expected{{[]string{"rule", "end", "12"}, 1, []string{"there is no state"}}})
	stop := i.start()
	i.await("detections", 7)
	i.awaitStatus("the rules are read", func(status admin.Status) bool {
		return slices.ContainsFunc(status.Appliances[0].Streams, func(s admin.StreamStatus) bool {
			return s.Stream == "rules" && !s.LastSuccess.IsZero()
		})
	})
	began := time.Now()

	i.expect(flags, []expected{
		{[]string{"hide", "25769803701", "--victim", "any", "--for", "1d", "--description", "backup", "--by", "ana"}, 0, []string{"rule 1 hides detections until "}},
		{[]string{"tickets", "show", "1"}, 0, []string{`"by": "ana"`, "applied"}},
	})
	rules := i.rules()
	require.Equal(t, len(rules), 1)
	rule := rules[0]
	assert.Equal(t, rule.Hidden, 4, "the detections that the dry run counts")
	assert.Contains(t, rule.Description, "backup")
	i.await("events", 2) // of the command, and of the new rule
	created, err := regexp.Match(fmt.Sprintf(`"rule.created-%d-.*"by":"ana"}`, rule.ID), require.Value(os.ReadFile(i.events))(t))
	assert.True(t, err == nil && created, "no event names who asked for the rule")
	lasts := func(least time.Duration) {
		t.Helper()
		end := time.UnixMilli(i.rules()[0].Expiration)
		assert.True(t, !end.Before(began.Add(least).Truncate(time.Millisecond)) && end.Before(began.Add(least+time.Hour)), "it ends", end)
	}
	lasts(24 * time.Hour)

	id := fmt.Sprint(rule.ID)
	i.expect(flags, []expected{{[]string{"rule", "extend", id, "--for", "2d"}, 0, []string{"rule " + id + " hides detections until "}}})
	lasts(48 * time.Hour)
	i.expect(flags, []expected{
		{[]string{"rule", "end", id}, 0, []string{"rule " + id + " has ended"}},
		{[]string{"rule", "end", "4711"}, 1, []string{"was rejected: ", "4711"}},
		{[]string{"rule", "extend", id, "--for", "4d"}, 1, []string{"--for is more than", "rules.max_expiration"}},
	})
	stop()
	i.expect(flags, []expected{{[]string{"rule", "end", id}, 1, []string{"the bridge does not run: start it with ndrbridge run"}}})
	i.expect(flags, []expected{{[]string{"rule", "end", id, "--by", "ana"}, 1, []string{"the bridge does not run: start it with ndrbridge run"}}})
}
