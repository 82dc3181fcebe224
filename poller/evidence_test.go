package poller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
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
