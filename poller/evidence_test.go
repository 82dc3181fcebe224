package poller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// evidenceWorld is a lifecycleWorld whose detections get evidence.
type evidenceWorld struct {
	*lifecycleWorld
	o        poller.EvidenceOptions
	evidence *poller.Evidence
}

func (s steps) Read(ctx context.Context, after uint64, max checkpoint.Batch) ([]checkpoint.Record, error) {
	if err := s.w.step(); err != nil {
		return nil, err
	}
	return s.w.store.Read(ctx, after, max)
}

func (s steps) Since(ctx context.Context, t time.Time) (uint64, error) {
	if err := s.w.step(); err != nil {
		return 0, err
	}
	return s.w.store.Since(ctx, t)
}

func newEvidenceWorld(t *testing.T) *evidenceWorld {
	w := &evidenceWorld{lifecycleWorld: newLifecycleWorld(t, t.TempDir())}
	w.o = poller.EvidenceOptions{
		StreamOptions: w.options.StreamOptions, Before: 5 * time.Minute, After: 5 * time.Minute, MaxRecords: 100, PerHour: 60,
		ForgetAfter: w.options.ForgetAfter, Matches: func(e transform.Event) (bool, error) { return strings.Contains(string(e.Data()), `"type":"a"`), nil },
	}
	w.reopen()
	w.add("b") // an answer with the clock
	w.read()
	require.NoError(t, w.polls())
	return w
}

func (w *evidenceWorld) reopen() {
	w.restart()
	w.evidence = poller.NewEvidence(w.client, steps{w.lifecycleWorld}, w.o)
}

func (w *evidenceWorld) polls() error {
	for {
		next, err := w.evidence.Poll(context.Background())
		if err != nil || next == poller.Idle {
			return err
		}
	}
}

// attack adds a detection whose participant is the client of a record within its window.
func (w *evidenceWorld) attack(id int64, kind string) {
	record := w.standin.AddRecordsAt(1, w.now.Load()*1000)[0]
	var r struct {
		Source struct {
			Client struct{ Value string } `json:"clientAddr"`
		} `json:"_source"`
	}
	require.NoError(w, json.Unmarshal(record.JSON, &r))
	w.pass(time.Second)
	d := w.standin.Generate()
	d.ID, d.Type, d.Status, d.Resolution = id, kind, standin.Null, standin.Null
	d.StartTime, d.UpdateTime = w.now.Load()-1000, w.now.Load()
	d.EndTime = d.UpdateTime
	d.Participants = []standin.Participant{{ID: 1, Role: "offender", ObjectType: "ipaddr", ObjectValue: r.Source.Client.Value}}
	w.standin.Add(d)
}

type evidenceData struct {
	Detection struct {
		ID int64 `json:"id"`
	} `json:"detection"`
	Evidence struct {
		From, Until int64
		Total       *int64
		Truncated   bool
		Dropped     int
		Records     []json.RawMessage
	} `json:"evidence"`
	Related []struct {
		ID    int64  `json:"id"`
		Title string `json:"title"`
	} `json:"related"`
}

func (w *evidenceWorld) found() (all []evidenceData) {
	for _, e := range w.of("evidence") {
		var data evidenceData
		require.NoError(w, json.Unmarshal(e.Data(), &data))
		assert.True(w, len(e.Structured()) <= 256<<10 && e.PartitionKey == fmt.Sprint(data.Detection.ID), len(e.Structured()), e.PartitionKey)
		all = append(all, data)
	}
	return all
}

const attacked = 9007199254740993

func TestADetectionGetsEvidenceOnceAfterItsWindow(t *testing.T) {
	w := newEvidenceWorld(t)
	w.o.Related = true
	w.attack(attacked, "a")
	w.attack(attacked+2, "b") // does not match
	for _, v := range w.standin.Latest() {
		if participants := v.Detection().Participants; v.ID == attacked {
			require.NoError(t, w.standin.Update(func(d *standin.Detection) { d.Participants = participants }, attacked+2))
		}
	}
	w.read()
	w.reopen()
	require.NoError(t, w.polls())
	assert.Equal(t, len(w.found()), 0, "before the window has passed, events")
	for range 3 {
		w.pass(7 * time.Minute)
		require.NoError(t, w.polls())
		w.update("new", attacked) // a version that matches, too
		w.read()
		w.reopen()
	}
	found := w.found()
	require.Equal(t, len(found), 1, "events")
	e := found[0]
	assert.True(t, e.Detection.ID == attacked && e.Evidence.Until-e.Evidence.From == (10*time.Minute+time.Second).Milliseconds(), e)
	assert.True(t, len(e.Evidence.Records) == 1 && *e.Evidence.Total == 1 && !e.Evidence.Truncated && e.Evidence.Dropped == 0, e)
	assert.True(t, len(e.Related) == 1 && e.Related[0].ID == attacked+2, "related", e.Related)
}

func TestEvidenceNeedsTheMemoryOfOnePage(t *testing.T) {
	w := newEvidenceWorld(t)
	// An appliance has a quarter of the budget, which is that of the smallest page.
	w.evidence = poller.NewEvidence(w.client.Within(appliance.NewBudget(128<<10)), w.store, w.o)
	w.attack(attacked, "a")
	w.read()
	w.pass(7 * time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := w.evidence.Poll(ctx)
	require.NoError(t, err)
	assert.Equal(t, len(w.found()), 1, "events")
}

func TestEvidenceWaitsForItsShareOfTheHour(t *testing.T) {
	w := newEvidenceWorld(t)
	w.o.PerHour = 2
	for i := range int64(5) {
		w.attack(attacked+i, "a")
	}
	w.read()
	w.reopen()
	for hour := range 4 {
		w.pass(61 * time.Minute)
		for range 2 {
			require.NoError(t, w.polls())
			w.reopen()
		}
		assert.Equal(t, len(w.found()), min(5, 2*(hour+1)), "events after", hour+1, "hours")
	}
	for i, e := range w.found() {
		assert.Equal(t, e.Detection.ID, attacked+int64(i), "the oldest first")
	}
}

func TestEvidenceIsOneEventWhateverCrashes(t *testing.T) {
	w := newEvidenceWorld(t)
	for i := range int64(3) {
		w.attack(attacked+i, "a")
	}
	w.read()
	w.pass(time.Hour)
	w.crashes(w.polls, w.reopen)
	require.NoError(t, w.polls())
	ids := make(map[string]bool)
	for _, e := range w.of("evidence") {
		ids[e.ID] = true
	}
	assert.True(t, len(ids) == 3 && len(w.found()) == 3, ids)
}

func TestOnlyRecordsOfTheDetectionAreEvidence(t *testing.T) {
	record := func(at int64, fields string) string {
		return fmt.Sprintf(`{"_id":"%d","_source":{"timestamp":%d,%s}}`, at, at, fields)
	}
	for name, c := range map[string]struct {
		records       func(at int64, address string) []string
		kept, dropped int
		total         string
		truncated     bool
	}{
		"not those outside the window": {func(at int64, a string) []string {
			return []string{record(at-3600_000, `"clientAddr":"`+a+`"`), record(at+3600_000, `"clientAddr":"`+a+`"`), record(at, `"clientAddr":"`+a+`"`)}
		}, 1, 2, "3", false},
		"not those of other machines": {func(at int64, a string) []string {
			return []string{record(at, `"clientAddr":"192.0.2.250","host":"`+a+`"`), record(at, `"senderAddr":{"type":"ipaddr4","value":["`+a+`"]}`)}
		}, 1, 1, "2", false},
		"not more than fit": {func(at int64, a string) (all []string) {
			for range 10 {
				all = append(all, record(at, `"clientAddr":"`+a+`","body":"`+strings.Repeat("<", 60<<10)+`"`))
			}
			return all
		}, 4, 0, "10", true},
		"some of many":           {func(at int64, a string) []string { return []string{record(at, `"clientAddr":"`+a+`"`)} }, 1, 0, "9007199254740993", true},
		"none of an empty store": {func(int64, string) []string { return nil }, 0, 0, "0", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEvidenceWorld(t)
			w.attack(attacked, "a")
			w.read()
			w.pass(time.Hour)
			var latest standin.Detection
			for _, v := range w.standin.Latest() {
				if v.ID == attacked {
					latest = v.Detection()
				}
			}
			w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/records/search") {
					w.standin.ServeHTTP(rw, r)
					return
				}
				rw.Header().Set("Date", w.time().UTC().Format(http.TimeFormat))
				records := c.records(latest.UpdateTime, latest.Participants[0].ObjectValue)
				fmt.Fprintf(rw, `{"total":%s,"records":[%s]}`, c.total, strings.Join(records, ","))
			}))
			require.NoError(t, w.polls())
			found := w.found()
			require.Equal(t, len(found), 1, "events")
			e := found[0].Evidence
			assert.True(t, len(e.Records) == c.kept && e.Dropped == c.dropped && fmt.Sprint(*e.Total) == c.total && e.Truncated == c.truncated,
				len(e.Records), e.Dropped, *e.Total, e.Truncated)
		})
	}
}

func TestARecordStoreThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		status int
		off    bool
		events int
	}{
		"turns evidence off if the key may not search": {"/records/search", 403, true, 0},
		"turns evidence off if it does not exist":      {"/records/search", 404, true, 0},
		"is asked again": {"/records/search", 500, false, 0},
		"is not asked about a detection that is gone":    {fmt.Sprint("/detections/", attacked), 404, false, 0},
		"may be without related detections":              {fmt.Sprint("/detections/", attacked, "/related"), 404, false, 1},
		"may be without the right to related detections": {fmt.Sprint("/detections/", attacked, "/related"), 403, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEvidenceWorld(t)
			w.o.Related = true
			w.reopen()
			w.attack(attacked, "a")
			w.read()
			w.pass(time.Hour)
			refused := true
			w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if refused && r.URL.Path == "/api/v1"+c.path {
					rw.WriteHeader(c.status)
					io.WriteString(rw, `{"detail":"needs write: full"}`)
					return
				}
				w.standin.ServeHTTP(rw, r)
			}))
			log := new(strings.Builder)
			status := pollOptional(t, w.evidence, log)
			assert.True(t, status.Off == c.off && len(w.found()) == c.events, status, len(w.found()))
			if t.Log(log); c.off || c.status == 500 { // nothing was lost
				refused = false
				require.NoError(t, w.polls())
				assert.Equal(t, len(w.found()), 1, "events after that")
			}
		})
	}
}

// described lets a Poller poll the evidence some times, and returns its status and log.
func (w *evidenceWorld) described(polls int) (poller.Status, string) {
	log := new(strings.Builder)
	w.o.Log = slog.New(slog.NewTextHandler(log, nil))
	w.reopen()
	ctx, end := context.WithCancel(context.Background())
	p := poller.New(&several{optionalSource: w.evidence, left: polls, end: end}, poller.Options{
		Interval: time.Millisecond, RetryInitial: time.Millisecond, RetryMax: time.Millisecond, AuthRetry: time.Millisecond, Optional: true,
		Log: w.o.Log, Metrics: w.o.Metrics,
	})
	p.Run(ctx)
	return p.Status(), log.String()
}

// several is a source that ends its Poller after some polls.
type several struct {
	optionalSource
	left int
	end  context.CancelFunc
}

func (s *several) Poll(ctx context.Context) (poller.Next, error) {
	if s.left--; s.left < 0 {
		s.end()
		return poller.Idle, nil
	}
	return s.optionalSource.Poll(ctx)
}

// dead returns the dead letters of the evidence.
func (w *evidenceWorld) dead() []checkpoint.DeadLetter {
	dead, err := w.store.Dead(context.Background(), checkpoint.SourceOwner(w.evidence.Source()), "", 10)
	require.NoError(w, err)
	return dead
}

func TestWhatTheOperatorSeesOfARecordStoreThatMisbehaves(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(status)
			io.WriteString(rw, body)
		}
	}
	// The search that shows whether the others are to blame has no filter.
	filtered := func(h http.HandlerFunc) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), ".ipaddr") {
				h(rw, r)
				return
			}
			answer(200, `{"total":0,"records":[]}`)(rw, r)
		}
	}
	const record = `{"_id":"a","_source":{"timestamp":1,"clientAddr":"192.0.2.1"}}`
	endless := func(rw http.ResponseWriter, r *http.Request) {
		io.WriteString(rw, `{"records":[`+record)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(rw, ","+strings.Repeat(" ", 60<<10)+record); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		search    http.HandlerFunc
		timeout   time.Duration // of requests; 0: the default
		fails     bool          // the stream does, and nothing is given up
		dead      string        // what the dead letter says; "": there is none
		truncated bool
		log       string
	}{
		"it hangs": {search: func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, timeout: 100 * time.Millisecond, fails: true, log: "poll failed; retrying"},
		"it fails":                    {search: answer(503, "busy"), fails: true, log: "answered 503"},
		"it refuses every search":     {search: answer(422, `{"detail":"no"}`), fails: true, log: "answered 422"},
		"it refuses a filter":         {search: filtered(answer(422, `{"detail":"no such field"}`)), dead: "no such field", log: "becomes a dead letter"},
		"it fails at a filter":        {search: filtered(answer(500, "oops")), dead: "answered 500", log: "becomes a dead letter"},
		"its answer has no end":       {search: filtered(endless), dead: "larger than allowed", log: "becomes a dead letter"},
		"it ignores the limit":        {search: filtered(answer(200, `{"records":[`+strings.Repeat(record+",", 200)+record+`]}`)), dead: "more than the 100 objects requested", log: "becomes a dead letter"},
		"it always has one more page": {search: answer(200, `{"total":1000,"cursor":"next","records":[`+record+`]}`), truncated: true, log: "returned records that were not asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEvidenceWorld(t)
			w.attack(attacked, "a")
			w.read()
			w.pass(time.Hour)
			var searches atomic.Int64
			refused := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/records/search") {
					w.standin.ServeHTTP(rw, r)
					return
				}
				searches.Add(1)
				rw.Header().Set("Date", w.time().UTC().Format(http.TimeFormat))
				c.search(rw, r)
			})
			w.serve(refused)
			whole := w.client
			w.client = require.Value(appliance.New(appliance.Options{
				URL: w.options.URL, Key: func() (string, error) { return standin.DefaultAPIKey, nil }, Now: w.time,
				Timeout: c.timeout, MaxAnswer: 1 << 20,
			}))(t)
			t.Cleanup(w.client.Close)
			status, log := w.described(8)
			assert.Equal(t, status.Failures > 0, c.fails, status)
			assert.False(t, status.Off, status)
			assert.Contains(t, log, c.log)
			dead := w.dead()
			require.Equal(t, len(dead) == 1, c.dead != "", dead)
			if c.dead != "" {
				assert.Contains(t, dead[0].Reason, c.dead)
				assert.Equal(t, dead[0].Key, fmt.Sprint(attacked, "-evidence"))
			}
			found := w.found()
			require.Equal(t, len(found) == 1, c.truncated, found)
			if c.truncated {
				e := found[0].Evidence
				assert.True(t, e.Truncated && e.Dropped == 1 && len(e.Records) == 0 && *e.Total == 1000 && searches.Load() == 1, e, searches.Load())
			}
			w.client = whole
			w.serve(w.standin)
			status, _ = w.described(2)
			assert.Equal(t, status.Failures, 0, "afterwards", status)
			if c.fails { // nothing was lost
				assert.Equal(t, len(w.found()), 1, "events afterwards")
			} else {
				assert.Equal(t, len(w.found()), len(found), "events afterwards")
			}
		})
	}
}

func TestADetectionWithoutEvidenceIsCounted(t *testing.T) {
	const device, host = 1<<53 + 5, "PC7.example"
	for name, c := range map[string]struct {
		participant standin.Participant
		devices     string // the answer about devices; a number is a status
		filter      string
		record      string // the fields of the record that is found, if any
		skipped     uint64
	}{
		"not if its device has an address": {standin.Participant{ObjectType: "device", ObjectID: device, Hostname: host},
			`[{"id":9007199254740997,"ipaddr4":"192.0.2.7","ipaddr6":null}]`, `{"field":".ipaddr","operator":"=","operand":"192.0.2.7"}`, `"senderAddr":["192.0.2.7"]`, 0},
		"not if its device has one of IPv6": {standin.Participant{ObjectType: "device", ObjectID: device},
			`[{"id":9007199254740997,"ipaddr4":null,"ipaddr6":"2001:DB8::7"}]`, `{"field":".ipaddr","operator":"=","operand":"2001:db8::7"}`, `"clientAddr":"2001:db8:0::7"`, 0},
		"not if it has a host name": {standin.Participant{ObjectType: "ipaddr", Hostname: host, External: true},
			``, `{"field":".any","operator":"=","operand":"pc7.example"}`, `"host":"pc7.EXAMPLE"`, 0},
		"not if the devices are not shown, and it has a host name": {standin.Participant{ObjectType: "device", ObjectID: device, Hostname: host},
			`403`, `{"field":".any","operator":"=","operand":"pc7.example"}`, `"answers":{"value":["pc7.example"]}`, 0},
		"if its device has no address":    {standin.Participant{ObjectType: "device", ObjectID: device}, `[{"id":9007199254740997,"ipaddr4":null}]`, "", "", 1},
		"if its device is not known":      {standin.Participant{ObjectType: "device", ObjectID: device}, `[]`, "", "", 1},
		"if the devices are not shown":    {standin.Participant{ObjectType: "device", ObjectID: device}, `404`, "", "", 1},
		"if it has the name of a scanner": {standin.Participant{ObjectType: "scanner_service", ScannerService: "weekly"}, ``, "", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEvidenceWorld(t)
			w.attack(attacked, "a")
			c.participant.ID, c.participant.Role = 1, "offender"
			require.NoError(t, w.standin.Update(func(d *standin.Detection) { d.Participants = []standin.Participant{c.participant} }, attacked))
			at := w.now.Load() - 1000
			w.read()
			w.pass(time.Hour)
			var search, devices string
			w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				path := strings.TrimPrefix(r.URL.Path, "/api/v1")
				if path != "/devices/search" && path != "/records/search" {
					w.standin.ServeHTTP(rw, r)
					return
				}
				body, _ := io.ReadAll(r.Body)
				rw.Header().Set("Date", w.time().UTC().Format(http.TimeFormat))
				status, err := strconv.Atoi(c.devices)
				switch {
				case path == "/records/search":
					search = string(body)
					other := fmt.Sprintf(`{"_source":{"timestamp":%d,"clientAddr":"192.0.2.250","host":"other.example"}}`, at)
					fmt.Fprintf(rw, `{"total":2,"records":[%s,{"_source":{"timestamp":%d,%s}}]}`, other, at, c.record)
				case err == nil:
					rw.WriteHeader(status)
				default:
					devices = string(body)
					io.WriteString(rw, c.devices)
				}
			}))
			status, log := w.described(2)
			assert.True(t, status.Failures == 0 && status.Skipped == c.skipped, status)
			found := w.found()
			require.Equal(t, len(found), 1-int(c.skipped), "events")
			assert.Equal(t, len(w.dead()), 0, "dead letters")
			if c.participant.ObjectType == "device" && strings.HasPrefix(c.devices, "[") {
				assert.Contains(t, devices, `"operand":[9007199254740997]`)
			}
			if c.skipped > 0 {
				assert.Equal(t, search, "", "it searches")
				assert.Contains(t, log, "none of its participants has an address or a host name")
				return
			}
			assert.Contains(t, search, `"rules":[`+c.filter+`]`)
			e := found[0].Evidence
			assert.True(t, len(e.Records) == 1 && e.Dropped == 1 && strings.Contains(string(e.Records[0]), c.record), e)
		})
	}
	t.Run("if the appliance no longer shows it", func(t *testing.T) {
		w := newEvidenceWorld(t)
		w.attack(attacked, "a")
		w.read()
		w.pass(time.Hour)
		w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == fmt.Sprint("/api/v1/detections/", attacked) {
				rw.WriteHeader(404)
				return
			}
			w.standin.ServeHTTP(rw, r)
		}))
		status, log := w.described(2)
		assert.True(t, status.Failures == 0 && status.Skipped == 1 && len(w.found()) == 0, status)
		assert.Contains(t, log, "the appliance no longer shows it")
	})
}

func TestEventsThatLeaveTheJournalUnreadAreCounted(t *testing.T) {
	w := newEvidenceWorld(t)
	w.attack(attacked, "a")
	w.read()
	require.NoError(t, w.store.Close())
	w.store = require.Value(checkpoint.Open(w.path, checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 1}}))(t)
	next := require.Value(w.store.Since(t.Context(), w.time().Add(time.Hour)))(t)
	require.NoError(t, w.store.Configure(t.Context(), map[string]checkpoint.Start{"soc": {}}))
	require.NoError(t, w.store.CommitDelivery(t.Context(), checkpoint.Delivery{Sink: "soc", Cursor: next - 1}))
	w.attack(attacked+1, "a")
	w.read()
	w.pass(time.Hour)
	status, log := w.described(3)
	assert.True(t, status.Failures == 0 && status.Skipped == 1, status)
	assert.Contains(t, log, "events left the journal before their detections could get evidence\" events=1")
	found := w.found()
	assert.True(t, len(found) == 1 && found[0].Detection.ID == attacked+1, found)
}

func TestOneWrongDateMovesNoWindow(t *testing.T) {
	w := newEvidenceWorld(t)
	w.attack(attacked, "a")
	w.read()
	w.client = require.Value(appliance.New(appliance.Options{
		URL: w.options.URL, Key: func() (string, error) { return standin.DefaultAPIKey, nil }, Now: w.time,
	}))(t)
	t.Cleanup(w.client.Close)
	w.reopen()
	w.standin.SetHazards(standin.Hazards{Date: w.time().Add(-5 * 365 * 24 * time.Hour).UTC().Format(http.TimeFormat)})
	require.Value(w.client.Firmware(t.Context()))(t) // the first answer
	w.standin.SetHazards(standin.Hazards{})
	require.NoError(t, w.polls())
	w.pass(7 * time.Minute)
	require.NoError(t, w.polls())
	found := w.found()
	require.Equal(t, len(found), 1)
	assert.True(t, found[0].Evidence.Until > w.now.Load()-time.Hour.Milliseconds(), "the window ends at", found[0].Evidence.Until)
}
