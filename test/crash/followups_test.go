package crash

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/transform"
)

// followUpKeys are the keys of an appliance that turn follow-ups on, and report is what the sweep of
// detections reports then. Rules never hide the detections that get evidence. Notes and evidence take
// requests for each detection, too many for the busiest appliance.
const (
	singleKeys = `
    notes: {in: true, interval: 1s}
    evidence: {match: 'detection.type in ["dns_tunnel", "kerberoasting"]', before: 1m, after: 0s, max_records: 5, per_hour: 10000, related: true}`
	followUpKeys = `
    context: {devices: true, tags: true, groups: true, every: 1m}
    rules: {enabled: true, interval: 50ms}
    blind_spots: {exclusion_intervals: true, alerts: true, record_ingest: true, interval: 50ms}`
	report = ", report: [hidden, gone, shown]"
)

// followUpStreams are the streams of follow-ups.
var followUpStreams = []string{
	poller.StreamLifecycle, poller.StreamNotes, poller.StreamContext, poller.StreamEvidence,
	poller.StreamRules, poller.StreamIntervals, poller.StreamAlerts, poller.StreamIngest,
}

// streamOf returns the stream of follow-ups that an event is from, or "".
func streamOf(e transform.Event) string {
	kind := strings.TrimPrefix(e.Type, transform.TypePrefix)
	switch area, action, _ := strings.Cut(kind, "."); {
	case area == "rule":
		return poller.StreamRules
	case area == "blindspot":
		return map[string]string{
			transform.BlindInterval: poller.StreamIntervals, transform.BlindAlert: poller.StreamAlerts, transform.BlindIngest: poller.StreamIngest,
		}[parse(e).Blindspot.Kind]
	case area == "detection":
		return map[string]string{
			"hidden": poller.StreamLifecycle, "gone": poller.StreamLifecycle, "shown": poller.StreamLifecycle,
			"noted": poller.StreamNotes, "context": poller.StreamContext, "evidence": poller.StreamEvidence,
		}[action]
	}
	return ""
}

// followUpData is what the data of events say about follow-ups.
type followUpData struct {
	Detection struct {
		ModTime      int64 `json:"mod_time"`
		Type         string
		Participants []json.RawMessage
	}
	Changes   struct{ Participants *participantsChange }
	Context   struct{ Devices []struct{ ID int64 } }
	Note      struct{ Text string }
	Evidence  window
	Related   []json.RawMessage
	Rules     []int64 // that were removed at once
	Blindspot struct{ Kind string }
}

func parse(e transform.Event) (data followUpData) {
	if err := json.Unmarshal(e.Data(), &data); err != nil {
		panic(fmt.Sprintf("%s: %v", e.ID, err)) // the bridge's JSON has these types
	}
	return data
}

// followUps are those of an appliance: what was done there, and what events say about it.
type followUps struct {
	arrived followed // at any sink

	mu      sync.Mutex
	contact map[string]bool     // the streams that have a position, so that changes become events
	written map[int64][]string  // the notes of each detection
	made    map[string][]string // the actions that events must report about each rule and blind spot
	waiting map[string]int      // by stream: changes that have yet to be reported
	match   map[int64]bool      // the detections with a version that gets evidence
	due     map[int64]bool      // those that must have evidence, or be dead letters
	dead    map[int64]bool      // those whose evidence is a dead letter
}

func newFollowUps() *followUps {
	return &followUps{
		arrived: newFollowed(), contact: make(map[string]bool), written: make(map[int64][]string), made: make(map[string][]string),
		waiting: make(map[string]int), match: make(map[int64]bool), due: make(map[int64]bool), dead: make(map[int64]bool),
	}
}

func (f *followUps) hasContact(stream string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.contact[stream]
}

// followed is what events say about follow-ups. Repeated events do not count. It is safe for
// concurrent use.
type followed struct {
	mu           sync.Mutex
	ids          map[string]bool
	notes        map[int64][]string
	changes      map[string][]string // actions, by rule and blind spot
	evidence     map[int64][]window
	contexts     map[int64]knownDevices
	participants map[int64]map[int64]string // by id, of the last version
	counts       map[string]int             // of what was compared
	faults       []string
}

func newFollowed() followed {
	return followed{
		ids: make(map[string]bool), notes: make(map[int64][]string), changes: make(map[string][]string), evidence: make(map[int64][]window),
		contexts: make(map[int64]knownDevices), participants: make(map[int64]map[int64]string),
		counts: make(map[string]int),
	}
}

// record records the next event. The first deliveries to any of the sinks have the same order as those
// to one.
func (f *followed) record(e transform.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ids[e.Source+e.ID] {
		return
	}
	f.ids[e.Source+e.ID] = true
	var id int64
	if _, err := fmt.Sscan(e.Subject, &id); err != nil && e.Stream() == transform.StreamDetections {
		f.faults = append(f.faults, fmt.Sprintf("event %s has the subject %q", e.ID, e.Subject))
	}
	stream := streamOf(e)
	f.counts[cmp.Or(stream, "versions")]++
	switch stream {
	case poller.StreamNotes:
		f.notes[id] = append(f.notes[id], parse(e).Note.Text)
	case poller.StreamContext:
		f.addContext(id, parse(e))
	case poller.StreamEvidence:
		data := parse(e)
		f.evidence[id] = append(f.evidence[id], data.Evidence)
		if data.Related != nil {
			f.counts["related"]++
		}
	case poller.StreamRules, poller.StreamIntervals, poller.StreamAlerts, poller.StreamIngest:
		f.addChange(e, stream)
	case "":
		if e.Stream() == transform.StreamDetections {
			data := parse(e)
			f.contexts[id] = devicesOf(data)
			f.compareParticipants(id, e.ID, data)
		}
	}
}

// followUpChanges returns what changes an appliance until a context is done.
func (s *sensor) followUpChanges() []func(context.Context, *testing.T, *rand.Rand) {
	return []func(context.Context, *testing.T, *rand.Rand){
		s.vanish, s.writeNotes, s.changeParticipants, s.changeRules, s.changeRules, s.changeIntervals, s.changeAlerts, s.changeIngest,
	}
}

// each calls do repeatedly until ctx is done.
func each(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

// pick returns a random detection of an appliance, or nil.
func (s *sensor) pick(random *rand.Rand) *standin.Version {
	all := s.appliance.Latest()
	if len(all) == 0 {
		return nil
	}
	return all[random.IntN(len(all))]
}

// byTest marks the requests that no hazard affects.
const byTest = "X-Test"

// ask makes a request to an appliance that no hazard affects.
func ask(a *standin.Appliance, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(byTest, "true")
	answer := httptest.NewRecorder()
	a.ServeHTTP(answer, r)
	return answer
}

func isByBridge(r *http.Request) bool { return r.Header.Get(byTest) == "" }

// missingFollowUps returns what follow-ups have yet to say about an appliance at rest, apart from
// evidence.
func (s *sensor) missingFollowUps() (missing []string) {
	f := &s.follow.arrived
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Concat(s.missingNotes(f), s.missingChanges(f), s.missingContexts(f))
}

// followUpFaults returns the broken guarantees of follow-ups at rest.
func (s *sensor) followUpFaults() []string {
	missing := s.missingFollowUps()
	f := &s.follow.arrived
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Concat(missing, f.faults, s.noteFaults(f), s.changeFaults(f), s.missingEvidence(f), s.evidenceFaults(f))
}

// awaitFollowUps waits until follow-ups have reached a sink.
func (s *scene) awaitFollowUps(t *testing.T, b *bridge) {
	t.Helper()
	for _, sensor := range s.sensors {
		least, progress, logged := -1, time.Now(), time.Now()
		for {
			looked := time.Now()
			missing := sensor.missingFollowUps()
			if time.Since(logged) > 20*time.Second {
				t.Logf("%s: %d follow-ups have yet to arrive: %.300q", sensor.name, len(missing), missing)
				logged = time.Now()
			}
			if len(missing) == 0 {
				break
			}
			if least < 0 || len(missing) < least {
				least, progress = len(missing), time.Now()
			}
			if time.Since(progress) > patience {
				t.Fatalf("%s: %d follow-ups did not arrive:\n%s\nthe last bridge wrote:\n%s", sensor.name, len(missing), strings.Join(missing[:min(len(missing), 10)], "\n"), b.output.end())
			}
			// Evaluating a long run takes processor time, which the bridge needs as well.
			time.Sleep(max(50*time.Millisecond, 5*time.Since(looked)))
		}
		sensor.awaitEvidence()
	}
}

// changeFollowUps changes what follow-ups are about at all appliances until stop is called.
func (s *scene) changeFollowUps(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	for i, sensor := range s.sensors {
		for n, change := range sensor.followUpChanges() {
			changing.Go(func() { change(ctx, t, rand.New(rand.NewPCG(s.seed+uint64(i), uint64(2+n)))) })
		}
	}
	stop = func() { cancel(); changing.Wait() }
	t.Cleanup(stop)
	return stop
}

func (s *scene) requireEvidence() {
	if s.skipped {
		return // which is logged and counted
	}
	for _, sensor := range s.sensors {
		sensor.requireEvidence()
	}
}
