package poller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// openListing opens a source that compares lists.
type openListing func(*appliance.Client, poller.FollowUpStore, poller.StreamOptions) poller.Source

// newRules opens a source of rules of which a description that begins with "by " names who asked for one.
func newRules(client *appliance.Client, store poller.FollowUpStore, o poller.StreamOptions) poller.Source {
	return poller.NewRules(client, store, o, func(_ context.Context, description string) (string, error) {
		by, asked := strings.CutPrefix(description, "by ")
		switch {
		case !asked:
			return "", nil
		case by == "":
			return "", errListingLost
		}
		return by, nil
	})
}

// listings is a world in which a source compares what the stand-in appliance lists over HTTP, and
// keeps its state in a file.
type listings struct {
	listingsTB
	path    string
	now     atomic.Int64 // seconds
	standin *standin.Appliance
	answer  atomic.Pointer[string] // replaces that of the appliance
	client  *appliance.Client
	open    openListing
	store   *checkpoint.Store
	source  poller.Source
	fail    string // what happens to commits: "", before or after they are written
	read    uint64 // how far the journal was read
}

type listingsTB interface {
	require.T
	Errorf(format string, args ...any)
	Cleanup(func())
}

// listingsStart is Wednesday, 2025-06-18 06:40:00 UTC.
const listingsStart = 1_750_228_800

func newListings(t listingsTB, dir string, open openListing) *listings {
	l := &listings{listingsTB: t, path: filepath.Join(dir, "state.db"), open: open}
	l.now.Store(listingsStart)
	l.standin = standin.New(standin.Options{Seed: 1, Size: 100, Product: "Extra", Now: l.time})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body := l.answer.Load(); body != nil {
			w.Header().Set("Date", l.time().UTC().Format(http.TimeFormat))
			io.WriteString(w, *body)
			return
		}
		l.standin.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := appliance.New(appliance.Options{
		URL: server.URL, Product: "Extra", Key: func() (string, error) { return standin.DefaultAPIKey, nil }, Now: l.time,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	l.client = client
	l.start()
	t.Cleanup(func() { l.store.Close() })
	return l
}

func (l *listings) time() time.Time { return time.Unix(l.now.Load(), 0) }

// start opens the state with a new source, like a new process.
func (l *listings) start() {
	store, err := checkpoint.Open(l.path, checkpoint.Options{})
	require.NoError(l, err)
	l.store, l.fail = store, ""
	l.source = l.open(l.client, l, poller.StreamOptions{
		Appliance: "hq", Now: l.time, Log: slog.New(slog.DiscardHandler), Metrics: poller.NewMetrics(prometheus.NewRegistry()),
	})
}

func (l *listings) restart() {
	require.NoError(l, l.store.Close())
	l.start()
}

func (l *listings) Position(ctx context.Context, s checkpoint.Source) ([]byte, error) {
	return l.store.Position(ctx, s)
}

func (l *listings) Recall(ctx context.Context, s checkpoint.Source, keys []string) ([][]byte, error) {
	return l.store.Recall(ctx, s, keys)
}

func (l *listings) Remembered(ctx context.Context, s checkpoint.Source, after string, limit int) ([]checkpoint.Entry, error) {
	return l.store.Remembered(ctx, s, after, limit)
}

var errListingLost = errors.New("no space left on device")

func (l *listings) Commit(ctx context.Context, c checkpoint.Commit) error {
	if l.fail == "before" {
		return errListingLost
	}
	if err := l.store.Commit(ctx, c); err != nil {
		return err
	}
	if l.fail == "after" {
		return errListingLost
	}
	return nil
}

// call sends a request to the stand-in past the network and its hazards.
func (l *listings) call(method, path, body string) string {
	hazards := l.standin.Hazards()
	l.standin.SetHazards(standin.Hazards{})
	defer l.standin.SetHazards(hazards)
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Extra apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	l.standin.ServeHTTP(answer, r)
	require.True(l, answer.Code < 300, method, path, body, "answers", answer.Code, answer.Body)
	if method == http.MethodPost {
		location := answer.Header().Get("Location")
		return location[strings.LastIndexByte(location, '/')+1:]
	}
	return answer.Body.String()
}

const tuningPath = "/detections/rules/hiding"

// rule creates a tuning rule, and returns its id.
func (l *listings) rule(fields string) string {
	body := map[string]any{"offender": "Any", "victim": "Any", "expiration": nil, "detection_type": "all_security"}
	require.NoError(l, json.Unmarshal([]byte("{"+fields+"}"), &body))
	whole, err := json.Marshal(body)
	require.NoError(l, err)
	return l.call(http.MethodPost, tuningPath, string(whole))
}

// says lets the appliance answer with a text; empty: with what is true.
func (l *listings) says(body string) {
	l.answer.Store(&body)
	if body == "" {
		l.answer.Store(nil)
	}
}

func (l *listings) poll() error {
	_, err := l.source.Poll(context.Background())
	return err
}

// news returns the events that were journalled since the last call.
func (l *listings) news() (events []transform.Event) {
	for {
		records, err := l.store.Read(context.Background(), l.read, checkpoint.Batch{})
		require.NoError(l, err)
		if len(records) == 0 {
			return events
		}
		for _, r := range records {
			events, l.read = append(events, r.Event), r.Seq
		}
	}
}

// words returns an event as its type, its subject, and what changed.
func words(t require.T, e transform.Event) string {
	var data struct {
		Rules, Changes json.RawMessage
		Blindspot      struct{ Since, Until string }
	}
	require.NoError(t, json.Unmarshal(e.Data(), &data))
	return strings.Join(strings.Fields(strings.Join([]string{
		strings.TrimPrefix(e.Type, "io.ndrbridge."), e.Subject, string(data.Rules), string(data.Changes), data.Blindspot.Since, data.Blindspot.Until,
	}, " ")), " ")
}

// expect polls, and checks what the events say.
func (l *listings) expect(step string, want ...string) {
	require.NoError(l, l.poll(), step)
	l.expectNews(step, want...)
}

func (l *listings) expectNews(step string, want ...string) {
	var got []string
	for _, e := range l.news() {
		got = append(got, words(l, e))
		assert.Equal(l, e.Source, "ndrbridge://hq/events", "source")
		assert.Equal(l, e.PartitionKey, "hq", "partition key")
	}
	assert.EqualSlices(l, got, want, step)
}

func TestEachChangeOfATuningRuleIsAnEvent(t *testing.T) {
	hour := time.Hour.Milliseconds()
	now := int64(listingsStart) * 1000
	for name, steps := range map[string]func(*listings){
		"its life": func(l *listings) {
			l.expect("nothing exists")
			id := l.rule(fmt.Sprintf(`"description":"Scans","expiration":%d`, now+hour))
			l.expect("it is created", "rule.created "+id)
			l.expect("nothing changes")
			l.call("PATCH", tuningPath+"/"+id, `{"description":"Scans at night","enabled":false}`)
			l.expect("it is changed", "rule.updated "+id+` {"enabled":{"from":true,"to":false},"description":{"from":"Scans","to":"Scans at night"}}`)
			l.now.Add(3599)
			l.expect("it ends soon")
			l.now.Add(1)
			l.expect("it ends", "rule.expired "+id)
			l.restart()
			l.now.Add(3600)
			l.expect("it ended before")
			l.call("PATCH", tuningPath+"/"+id, fmt.Sprintf(`{"expiration":%d}`, now+3*hour))
			l.expect("it is extended", fmt.Sprintf(`rule.updated %s {"expiration":{"from":%d,"to":%d}}`, id, now+hour, now+3*hour))
			l.now.Add(3600)
			l.expect("it ends again", "rule.expired "+id)
			l.call("PATCH", tuningPath+"/"+id, `{"expiration":null}`)
			l.expect("it never ends", fmt.Sprintf(`rule.updated %s {"expiration":{"from":%d,"to":null}}`, id, now+3*hour))
			l.call("DELETE", tuningPath+"/"+id, "")
			l.expect("it is removed", "rule.removed "+id)
			l.expect("it is not there")
		},
		"who had the bridge make it": func(l *listings) {
			l.expect("nothing exists")
			l.says(`[{"id":7,"description":"by ana"}]`)
			require.NoError(l, l.poll())
			assert.Equal(l, string(l.news()[0].Data()), `{"rule":{"description":"by ana","id":7,"by":"ana"}}`)
			l.says(`[{"id":7,"description":"by eve"}]`)
			l.expect("only a new one names it", `rule.updated 7 {"description":{"from":"by ana","to":"by eve"}}`)
			l.says(`[{"id":7,"description":"by eve"},{"id":8,"description":"by "}]`)
			assert.ErrorIs(l, l.poll(), errListingLost)
			l.expectNews("a state that cannot be read")
		},
		"what exists at the first contact": func(l *listings) {
			old, young := l.rule(fmt.Sprintf(`"expiration":%d`, now-hour)), l.rule(fmt.Sprintf(`"expiration":%d`, now+hour))
			l.expect("the first contact")
			l.restart()
			l.expect("nothing changes")
			l.now.Add(3600)
			l.expect("one ends", "rule.expired "+young)
			l.call("DELETE", tuningPath+"/"+old, "")
			l.expect("one is removed", "rule.removed "+old)
		},
		"one that has ended when it is seen": func(l *listings) {
			l.expect("nothing exists")
			id := l.rule(fmt.Sprintf(`"expiration":%d`, now))
			l.expect("it is created", "rule.created "+id, "rule.expired "+id)
			l.now.Add(-60)
			other := l.rule("")
			l.expect("the clock is set back, and another is created", "rule.created "+other)
			l.now.Add(120)
			l.expect("and goes on")
		},
		"what it hides is no change": func(l *listings) {
			l.rule("")
			l.expect("the first contact")
			l.standin.AddMany(20)
			listed := l.call("GET", tuningPath, "")
			require.True(l, !strings.Contains(listed, `"detections_hidden":0`), "it hides something", listed)
			l.expect("it hides something")
		},
		"the types in one field, in the other, in both": func(l *listings) {
			l.says(`[{"id":7,"detection_type":"sweep"}]`)
			l.expect("the first contact")
			l.says(`[{"id":7,"detection_types":["sweep"]}]`)
			l.expect("an upgrade")
			l.says(`[{"detection_type":"sweep","detection_types":["sweep"],"id":7}]`)
			l.expect("both")
			l.says(`[{"detection_type":"sweep","detection_types":["scan"],"id":7}]`)
			l.expect("another type", `rule.updated 7 {"detection_types":{"from":["sweep"],"to":["scan","sweep"]}}`)
		},
		"the order of properties is no change": func(l *listings) {
			l.says(`[{"id":7,"properties":[{"property":"a","operand":1},{"property":"b","operand":2}]}]`)
			l.expect("the first contact")
			l.says(`[{"id":7,"properties":[{"operand":2,"property":"b"},{"property":"a","operand":1}]}]`)
			l.expect("another order")
		},
		"ids that a double cannot tell apart": func(l *listings) {
			l.says(`[{"id":9007199254740992,"enabled":true}]`)
			l.expect("the first contact")
			l.says(`[{"id":9007199254740992,"enabled":true},{"id":9007199254740993,"enabled":true,"offender":{"object_id":9007199254740993}}]`)
			require.NoError(l, l.poll())
			news := l.news()
			require.True(l, len(news) == 1 && news[0].Subject == "9007199254740993", news)
			assert.Contains(l, string(news[0].Data()), `"id":9007199254740993`)
			assert.Contains(l, string(news[0].Data()), `{"object_id":9007199254740993}`)
			l.says(`[{"id":9007199254740993,"enabled":true,"offender":{"object_id":9007199254740993}}]`)
			l.expect("the first is gone", "rule.removed 9007199254740992")
		},
		"an empty list after several rules is believed the second time": func(l *listings) {
			l.expect("nothing exists")
			first, second := l.rule(""), l.rule("")
			l.expect("two", "rule.created "+first, "rule.created "+second)
			l.says("[]")
			l.expect("empty once")
			l.says("")
			l.expect("they are there")
			l.says("[]")
			l.expect("empty once")
			l.says("[")
			assert.Error(l, l.poll())
			l.says("[]")
			l.expect("empty, but not twice in a row")
			l.expect("empty twice", "rule.removed hq ["+first+","+second+"]")
			l.says("")
			l.expect("they are back", "rule.created "+first, "rule.created "+second)
			l.call("DELETE", tuningPath+"/"+first, "")
			l.expect("one is gone", "rule.removed "+first)
			l.call("DELETE", tuningPath+"/"+second, "")
			l.expect("the last is gone, too", "rule.removed "+second)
		},
	} {
		t.Run(name, func(t *testing.T) { steps(newListings(t, t.TempDir(), newRules)) })
	}
}

func TestAnInvalidListChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		open openListing
		is   string
		says string
	}{
		"rules cut short":            {newRules, `[{"id":1},{"id":2}]`, `[{"id":1}`},
		"rules as an object":         {newRules, `[{"id":1},{"id":2}]`, `{"rules":[]}`},
		"a login page":               {newRules, `[{"id":1},{"id":2}]`, `<html>Sign in</html>`},
		"nothing":                    {newRules, `[{"id":1},{"id":2}]`, ` `},
		"a rule without an id":       {newRules, `[{"id":1},{"id":2}]`, `[{"id":1},{"enabled":false}]`},
		"a rule that is there twice": {newRules, `[{"id":1},{"id":2}]`, `[{"id":1},{"id":1},{"id":3}]`},
		"more rules than fit":        {newRules, `[{"id":1},{"id":2}]`, "[" + numbered(10_001) + "]"},
		"an interval of a new type": {poller.NewExclusionIntervals, `[{"id":1,"interval_type":"daily","start":0,"end":86400}]`,
			`[{"id":1,"interval_type":"monthly","start":0,"end":86400}]`},
		"an interval without an end": {poller.NewExclusionIntervals, `[{"id":1,"interval_type":"daily","start":0,"end":86400}]`, `[{"id":1,"interval_type":"daily","start":0}]`},
		"an interval in the far future": {poller.NewExclusionIntervals, `[{"id":1,"interval_type":"daily","start":0,"end":86400}]`,
			`[{"id":1,"interval_type":"weekly","start":9223372036854775807,"end":-9223372036854775808}]`},
		"an alert without an id":         {poller.NewDisabledAlerts, `[{"id":1,"disabled":true}]`, `[{"disabled":true}]`},
		"an alert that is there twice":   {poller.NewDisabledAlerts, `[{"id":1,"disabled":true}]`, `[{"id":2,"disabled":true},{"id":2,"disabled":true}]`},
		"settings without record ingest": {poller.NewRecordIngest, `{"ingest_enabled":false}`, `{}`},
		"settings in a list":             {poller.NewRecordIngest, `{"ingest_enabled":false}`, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			l := newListings(t, t.TempDir(), c.open)
			l.says(c.is)
			l.expect("the first contact")
			l.says(c.says)
			for range 3 {
				assert.Error(t, l.poll())
			}
			l.says(c.is)
			l.expect("it is valid again")
		})
	}
}

// numbered returns objects with the ids from 1 on.
func numbered(n int) string {
	var b strings.Builder
	for id := range n {
		fmt.Fprintf(&b, `,{"id":%d}`, id+1)
	}
	return b.String()[1:]
}

func TestBlindSpotsAreEvents(t *testing.T) {
	at := func(seconds int64) string {
		return time.Unix(listingsStart+seconds, 0).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	for name, c := range map[string]struct {
		open  openListing
		steps func(*listings)
	}{
		"an exclusion interval": {poller.NewExclusionIntervals, func(l *listings) {
			l.expect("nothing exists")
			id := l.call("POST", "/exclusionintervals", fmt.Sprintf(
				`{"name":"Patches","interval_type":"onetime","start":%d,"end":%d,"alert_apply_all":true,"trend_apply_all":false}`, listingsStart+60, listingsStart+120))
			l.expect("it begins soon")
			l.now.Add(60)
			l.expect("it begins", "blindspot.opened "+id+" "+at(60)+" "+at(120))
			l.restart()
			l.call("PATCH", "/exclusionintervals/"+id, `{"name":"More patches"}`)
			l.now.Add(59)
			l.expect("it goes on")
			l.now.Add(1)
			l.expect("it ends", "blindspot.closed "+id+" "+at(60)+" "+at(120))
			l.now.Add(-1)
			l.expect("the time of an answer is a second behind")
			l.now.Add(1)
			l.call("PATCH", "/exclusionintervals/"+id, fmt.Sprintf(`{"end":%d}`, listingsStart+1000))
			l.expect("it is extended", "blindspot.opened "+id+" "+at(60)+" "+at(1000))
			l.call("DELETE", "/exclusionintervals/"+id, "")
			l.expect("it is deleted", "blindspot.closed "+id+" "+at(60)+" "+at(1000))
		}},
		"an alert": {poller.NewDisabledAlerts, func(l *listings) {
			var alerts []struct {
				ID       json.Number
				Disabled bool
			}
			require.NoError(l, json.Unmarshal([]byte(l.call("GET", "/alerts", "")), &alerts))
			var on, off string
			for _, alert := range alerts {
				if alert.Disabled {
					off = alert.ID.String()
				} else {
					on = alert.ID.String()
				}
			}
			l.expect("the first contact")
			l.call("PATCH", "/alerts/"+on, `{"disabled":true}`)
			l.now.Add(60)
			l.expect("one is disabled", "blindspot.opened "+on+" "+at(60))
			l.says("[]")
			l.expect("the list is empty once")
			l.says("")
			l.expect("it is there")
			l.call("PATCH", "/alerts/"+off, `{"disabled":false}`)
			l.expect("another is enabled, which was disabled before the first contact", "blindspot.closed "+off+" "+at(0))
			l.call("PATCH", "/alerts/"+on, `{"disabled":false}`)
			l.expect("the first is enabled", "blindspot.closed "+on+" "+at(60))
		}},
		"alerts that are gone": {poller.NewDisabledAlerts, func(l *listings) {
			l.says(`[{"id":9007199254740993,"disabled":true,"name":"a"},{"id":9007199254740992,"disabled":true}]`)
			l.expect("the first contact")
			l.says("[]")
			l.expect("the list is empty once")
			l.expect("and again", "blindspot.closed 9007199254740992 "+at(0), "blindspot.closed 9007199254740993 "+at(0))
		}},
		"ticket tracking": {poller.NewTicketTracking, func(l *listings) {
			l.call("PATCH", "/extra/ticketing", `{"enabled":false}`)
			l.expect("it is off at the first contact", "blindspot.opened ticket_tracking "+at(0))
			l.expect("it is still off")
			l.restart()
			l.expect("it is off after a restart")
			l.call("PATCH", "/extra/ticketing", `{"enabled":true}`)
			l.expect("it is on", "blindspot.closed ticket_tracking "+at(0))
			l.says(`["a shape that is not documented"]`)
			l.expect("that is not shown")
			l.says("")
			l.call("PATCH", "/extra/ticketing", `{"enabled":false}`)
			l.expect("it is off", "blindspot.opened ticket_tracking "+at(0))
		}},
		"the ingest of records": {poller.NewRecordIngest, func(l *listings) {
			l.expect("the first contact")
			l.call("PATCH", "/extra/cluster", `{"ingest_enabled":false}`)
			l.expect("it is halted", "blindspot.opened record_ingest "+at(0))
			l.expect("it is still halted")
			l.call("PATCH", "/extra/cluster", `{"ingest_enabled":true}`)
			l.expect("it is resumed", "blindspot.closed record_ingest "+at(0))
		}},
	} {
		t.Run(name, func(t *testing.T) { c.steps(newListings(t, t.TempDir(), c.open)) })
	}
}

func TestWhenAnExclusionIntervalIsOpen(t *testing.T) {
	for name, c := range map[string]struct {
		interval     string
		open, closed []string // times in UTC
	}{
		"every day": {`"interval_type":"daily","start":79200,"end":82800`,
			[]string{"2025-06-18T22:00:00Z", "2025-06-19T22:59:59Z"}, []string{"2025-06-18T21:59:59Z", "2025-06-18T23:00:00Z", "2025-06-19T00:00:00Z"}},
		"every night, past midnight": {`"interval_type":"daily","start":79200,"end":18000`,
			[]string{"2025-06-18T22:00:00Z", "2025-06-19T00:00:00Z", "2025-06-19T04:59:59Z"}, []string{"2025-06-18T21:59:59Z", "2025-06-19T05:00:00Z"}},
		"every night, as one number": {`"interval_type":"daily","start":79200,"end":104400`,
			[]string{"2025-06-18T22:00:00Z", "2025-06-19T04:59:59Z"}, []string{"2025-06-18T21:59:59Z", "2025-06-19T05:00:00Z"}},
		"all day": {`"interval_type":"daily","start":0,"end":86400`, []string{"2025-06-18T00:00:00Z", "2025-06-18T23:59:59Z"}, nil},
		"never":   {`"interval_type":"daily","start":7,"end":7`, nil, []string{"2025-06-18T00:00:07Z"}},
		"every Monday": {`"interval_type":"weekly","start":0,"end":86400`,
			[]string{"2025-06-16T00:00:00Z", "2025-06-23T23:59:59Z"}, []string{"2025-06-15T23:59:59Z", "2025-06-17T00:00:00Z"}},
		"from Sunday to Monday": {`"interval_type":"weekly","start":590400,"end":3600`,
			[]string{"2025-06-15T20:00:00Z", "2025-06-16T00:59:59Z"}, []string{"2025-06-15T19:59:59Z", "2025-06-16T01:00:00Z"}},
		"once": {`"interval_type":"onetime","start":1750226400,"end":1750230000`,
			[]string{"2025-06-18T06:00:00Z", "2025-06-18T06:59:59Z"}, []string{"2025-06-18T05:59:59Z", "2025-06-18T07:00:00Z", "2025-06-19T06:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, open := range []bool{true, false} {
				times := c.closed
				if open {
					times = c.open
				}
				for _, text := range times {
					l := newListings(t, t.TempDir(), poller.NewExclusionIntervals)
					l.now.Store(require.Value(time.Parse(time.RFC3339, text))(t).Unix())
					l.says("[]")
					l.expect("the first contact")
					l.says(`[{"id":1,` + c.interval + `}]`)
					require.NoError(t, l.poll())
					news := l.news()
					require.Equal(t, len(news) == 1, open, text, news)
					if open {
						var data struct {
							Blindspot struct{ Since, Until time.Time }
						}
						require.NoError(t, json.Unmarshal(news[0].Data(), &data))
						spot := data.Blindspot
						assert.True(t, !spot.Since.After(l.time()) && spot.Until.After(l.time()), text, spot)
					}
				}
			}
		})
	}
}

func TestAFailedCommitLosesAndRepeatsNoChange(t *testing.T) {
	for _, fail := range []string{"before", "after"} {
		for name, reopen := range map[string]bool{"the process goes on": false, "the process is killed": true} {
			t.Run("it fails "+fail+" it is written, and "+name, func(t *testing.T) {
				l := newListings(t, t.TempDir(), newRules)
				removed := l.rule("")
				l.expect("the first contact")
				l.call("DELETE", tuningPath+"/"+removed, "")
				created := l.rule(fmt.Sprintf(`"expiration":%d`, listingsStart*1000))
				l.fail = fail
				require.ErrorIs(t, l.poll(), errListingLost)
				l.fail = ""
				if reopen {
					l.restart()
				}
				require.NoError(t, l.poll())
				l.expectNews("each once", "rule.created "+created, "rule.expired "+created, "rule.removed "+removed)
				l.expect("nothing changes")
			})
		}
	}
}

// TestAConsumerOfTheEventsHasTheRulesOfTheAppliance checks a consumer that begins with what the
// appliance lists at the first contact.
func TestAConsumerOfTheEventsHasTheRulesOfTheAppliance(t *testing.T) {
	newDir := t.TempDir
	rapid.Check(t, func(t *rapid.T) {
		l := newListings(t, newDir(), newRules)
		var ids []string
		consumer := make(map[string]string)
		expired := make(map[string]bool)
		truth := func() map[string]string {
			var objects []json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(l.call("GET", tuningPath, "")), &objects))
			all := make(map[string]string)
			for _, object := range objects {
				rule, err := transform.ParseRule(object)
				require.NoError(t, err)
				all[rule.ID] = string(rule.Fields)
			}
			return all
		}
		for range rapid.IntRange(0, 3).Draw(t, "rules before") {
			ids = append(ids, l.rule(""))
		}
		require.NoError(t, l.poll())
		maps.Copy(consumer, truth())
		follow := func() {
			for _, e := range l.news() {
				var data struct {
					Rule  json.RawMessage
					Rules []json.Number
				}
				require.NoError(t, json.Unmarshal(e.Data(), &data))
				for _, id := range data.Rules {
					delete(consumer, id.String())
				}
				if data.Rule == nil {
					continue
				}
				rule, err := transform.ParseRule(data.Rule)
				require.NoError(t, err)
				_, has := consumer[rule.ID]
				require.Equal(t, has, e.Action() != "created", e.Type, rule.ID, "while the consumer has", slices.Sorted(maps.Keys(consumer)))
				switch e.Action() {
				case "removed":
					delete(consumer, rule.ID)
					continue
				case "expired":
					require.True(t, !expired[rule.ID] && isOver(rule, e.Time), "it expires", e)
					expired[rule.ID] = true
				default:
					expired[rule.ID] = expired[rule.ID] && isOver(rule, e.Time)
				}
				consumer[rule.ID] = string(rule.Fields)
			}
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			change := func(body string) {
				if len(ids) > 0 {
					l.call("PATCH", tuningPath+"/"+rapid.SampledFrom(ids).Draw(t, "rule"), body)
				}
			}
			l.now.Add(1)
			switch rapid.SampledFrom([]string{"create", "create", "describe", "disable", "enable", "expire", "remove", "remove all", "pass", "hide", "restart", "fail", "hazards", "poll", "poll"}).Draw(t, "step") {
			case "create":
				ids = append(ids, l.rule(`"description":`+string(require.Value(json.Marshal(rapid.StringN(0, 8, -1).Draw(t, "text")))(t))))
			case "describe":
				change(fmt.Sprintf(`{"description":"at %d"}`, l.now.Load()))
			case "disable":
				change(`{"enabled":false}`)
			case "enable":
				change(`{"enabled":true}`)
			case "expire":
				change(fmt.Sprintf(`{"expiration":%d}`, 1000*(l.now.Load()+rapid.Int64Range(-60, 60).Draw(t, "seconds"))))
			case "remove":
				if len(ids) > 0 {
					i := rapid.IntRange(0, len(ids)-1).Draw(t, "rule")
					l.call("DELETE", tuningPath+"/"+ids[i], "")
					ids = slices.Delete(ids, i, i+1)
				}
			case "remove all":
				for _, id := range ids {
					l.call("DELETE", tuningPath+"/"+id, "")
				}
				ids = nil
			case "pass":
				l.now.Add(30)
			case "hide":
				l.standin.AddMany(2)
			case "restart":
				l.restart()
			case "fail":
				l.fail = rapid.SampledFrom([]string{"before", "after"}).Draw(t, "commit fails")
				_ = l.poll() // it fails if there is something to commit
				l.fail = ""
			case "hazards":
				seldom := func(name string) float64 { return rapid.SampledFrom([]float64{0, 0.5}).Draw(t, name) }
				l.standin.SetHazards(standin.Hazards{CutJSON: seldom("cut"), HTML: seldom("html"), ServerError: seldom("5xx"), Lost: seldom("lost")})
			case "poll":
				_ = l.poll() // hazards are retried
			}
			follow()
		}
		l.standin.SetHazards(standin.Hazards{})
		for range 2 { // an empty list is believed the second time
			require.NoError(t, l.poll())
		}
		follow()
		assert.DeepEqual(t, consumer, truth(), "the consumer has, and the appliance")
		for id, fields := range consumer {
			rule, err := transform.ParseRule([]byte(fields))
			require.NoError(t, err)
			assert.Equal(t, expired[id], isOver(rule, l.time()), fields, "was reported as expired")
		}
	})
}

func isOver(r transform.Rule, at time.Time) bool {
	return r.Expiration != 0 && r.Expiration <= at.UnixMilli()
}

// directly serves requests without a network.
type directly struct{ http.Handler }

func (d directly) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	d.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

func TestAPartThatTheApplianceRefusesIsOffWhileTheOthersGoOn(t *testing.T) {
	opens := map[string]openListing{
		tuningPath: newRules, "/exclusionintervals": poller.NewExclusionIntervals, "/alerts": poller.NewDisabledAlerts, "/service/cluster": poller.NewRecordIngest,
		"/service/ticketing": poller.NewTicketTracking,
	}
	for path := range opens {
		for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity} {
			if status == http.StatusUnprocessableEntity && path != "/service/cluster" {
				continue // it means something only there
			}
			t.Run(fmt.Sprint(path, " answers ", status), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					store := require.Value(checkpoint.Open(filepath.Join(dir, "state.db"), checkpoint.Options{}))(t)
					defer store.Close()
					a := standin.New(standin.Options{Seed: 1, Size: 10})
					var refuses atomic.Bool
					refuses.Store(true)
					client := require.Value(appliance.New(appliance.Options{
						URL: "http://sensor.example", Key: func() (string, error) { return standin.DefaultAPIKey, nil },
						Transport: directly{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							if refuses.Load() && strings.HasSuffix(r.URL.Path, path) {
								http.Error(w, `{"error_message": "not for this key"}`, status)
								return
							}
							a.ServeHTTP(w, r)
						})},
					}))(t)
					ctx, stop := context.WithCancel(t.Context())
					defer synctest.Wait()
					defer stop()
					pollers, logs := make(map[string]*poller.Poller), make(map[string]*bytes.Buffer)
					for of, open := range opens {
						logs[of] = new(bytes.Buffer)
						log, metrics := slog.New(slog.NewTextHandler(logs[of], nil)), poller.NewMetrics(prometheus.NewRegistry())
						source := open(client.Aside(), store, poller.StreamOptions{Appliance: "hq", Now: time.Now, Log: log, Metrics: metrics})
						pollers[of] = poller.New(source, poller.Options{
							Interval: time.Minute, RetryInitial: time.Second, RetryMax: time.Minute, AuthRetry: 30 * time.Second, Optional: true, Log: log, Metrics: metrics,
						})
						go pollers[of].Run(ctx)
					}
					time.Sleep(30 * time.Minute)
					synctest.Wait()
					for of, p := range pollers {
						s := p.Status()
						assert.True(t, s.Off == (of == path) && (s.Failures > 0) == (of == path), of, "has the status", s)
					}
					said := logs[path].String()
					assert.Equal(t, strings.Count(said, "level=WARN"), 1, said)
					assert.Contains(t, said, fmt.Sprint("answered ", status))
					refuses.Store(false)
					time.Sleep(time.Hour)
					synctest.Wait()
					s := pollers[path].Status()
					assert.True(t, !s.Off && s.Failures == 0 && !s.LastSuccess.IsZero(), "it is on again", s)
				})
			})
		}
	}
}

// TestAStreamWithALongIntervalHasNoLagBetweenItsPolls is about the alert NdrbridgeSourceSilent.
func TestAStreamWithALongIntervalHasNoLagBetweenItsPolls(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := require.Value(checkpoint.Open(filepath.Join(dir, "state.db"), checkpoint.Options{}))(t)
		defer store.Close()
		var polls atomic.Int64
		var fails atomic.Bool
		client := require.Value(appliance.New(appliance.Options{
			URL: "http://sensor.example", Key: func() (string, error) { return "key", nil },
			Transport: directly{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
				if strings.HasSuffix(r.URL.Path, "/version") {
					io.WriteString(w, `{"version":"26.3.0"}`)
					return
				}
				if fails.Load() {
					w.WriteHeader(http.StatusInternalServerError)
				}
				if polls.Add(1) < 3 { // then no rule is listed any more, which the next poll confirms
					io.WriteString(w, `[{"id":1},{"id":2}]`)
				} else {
					io.WriteString(w, `[]`)
				}
			})},
		}))(t)
		log, metrics := slog.New(slog.DiscardHandler), poller.NewMetrics(prometheus.NewRegistry())
		p := poller.New(newRules(client, store, poller.StreamOptions{Appliance: "hq", Now: time.Now, Log: log, Metrics: metrics}), poller.Options{
			Interval: 24 * time.Hour, RetryInitial: time.Hour, RetryMax: time.Hour, AuthRetry: time.Hour, Log: log, Metrics: metrics,
		})
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go p.Run(ctx)
		for polls.Load() < 10 {
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			progress, ok := p.Progress()
			require.True(t, ok && progress.Behind == 0, "after", polls.Load(), "polls", progress)
		}
		fails.Store(true)
		time.Sleep(27 * time.Hour)
		synctest.Wait()
		progress, _ := p.Progress()
		assert.True(t, progress.Behind >= 24*time.Hour, "polls fail", progress)
	})
}
