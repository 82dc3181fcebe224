package crash

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// step is a step of a stream of follow-ups at which a bridge is killed.
type step struct {
	stream string // empty: none
	what   string
}

// The steps: the appliance has answered what leads to a commit, and an event has reached the
// webhook, which has yet to acknowledge it.
const (
	answered = "answered"
	arrived  = "arrived"
)

// steps returns the steps of all streams of follow-ups.
func steps() (all []step) {
	for _, what := range []string{answered, arrived} {
		for _, stream := range followUpStreams {
			all = append(all, step{stream, what})
		}
	}
	return all
}

// stepWatch watches the steps of a running bridge, and counts between which of them it was killed.
type stepWatch struct {
	mu       sync.Mutex
	awaited  step
	reached  chan struct{}              // closed at the awaited step
	answered map[checkpoint.Source]bool // what leads to a commit, since the bridge was started
	kills    map[string]*killCounts     // by stream
}

// killCounts counts kills by what was the last step of a stream.
type killCounts struct {
	uncommitted int // the appliance has answered, and no event was committed since the bridge was started
	undelivered int // an event was committed, and has not reached every sink
	delivered   int // what was committed has reached every sink
}

// await returns a channel that is closed when the bridge that is started next reaches a step.
func (w *stepWatch) await(awaited step) (reached <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaited, w.reached, w.answered = awaited, make(chan struct{}), make(map[checkpoint.Source]bool)
	return w.reached
}

func (w *stepWatch) happened(appliance string, s step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answered == nil || s.stream == "" {
		return // no bridge was started yet, or the step is none
	}
	if s.what == answered {
		w.answered[checkpoint.Source{Appliance: appliance, Stream: s.stream}] = true
	}
	if s == w.awaited {
		close(w.reached)
		w.awaited = step{}
	}
}

// watched serves the appliance, and watches the steps of the bridge that asks it.
func (s *sensor) watched(w http.ResponseWriter, r *http.Request) {
	stream := ""
	if s.steps != nil {
		stream = s.leadsToCommit(r)
	}
	if stream != "" {
		defer s.steps.happened(s.name, step{stream, answered})
	}
	s.appliance.ServeHTTP(w, r)
}

// leadsToCommit returns the stream of follow-ups that asks for something, if a commit follows the
// answer; otherwise "".
func (s *sensor) leadsToCommit(r *http.Request) (stream string) {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1")
	var detection int64
	_, err := fmt.Sscanf(path, "/detections/%d", &detection)
	changed := func(stream string) string {
		s.follow.mu.Lock()
		defer s.follow.mu.Unlock()
		if s.follow.waiting[stream] == 0 {
			return ""
		}
		return stream
	}
	switch {
	case err == nil && strings.HasSuffix(path, "/notes"):
		if s.isNoteUnread(detection) {
			return poller.StreamNotes
		}
	case err == nil && !strings.HasSuffix(path, "/related"):
		if _, gone := s.deleted.Load(detection); gone {
			return poller.StreamLifecycle
		}
	case path == "/devices/search":
		return poller.StreamContext
	case path == "/records/search":
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err == nil && bytes.Contains(body, []byte(`".ipaddr"`)) { // only evidence has a filter
			return poller.StreamEvidence
		}
	case path == "/detections/rules/hiding":
		return changed(poller.StreamRules)
	case path == "/exclusionintervals":
		return changed(poller.StreamIntervals)
	case path == "/alerts":
		return changed(poller.StreamAlerts)
	case path == "/service/cluster":
		return changed(poller.StreamIngest)
	}
	return ""
}

// countKill counts between which steps a bridge was killed, by its state and the events that it
// committed. It records which streams have a position.
func (s *scene) countKill(t *testing.T, store *checkpoint.Store, committed []transform.Event) {
	t.Helper()
	w := s.steps
	of := make(map[checkpoint.Source][]transform.Event)
	for _, e := range committed {
		source := checkpoint.Source{Appliance: e.Appliance, Stream: streamOf(e)}
		of[source] = append(of[source], e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sensor := range s.sensors {
		sensor.giveUpEvidence(t, store)
		for _, stream := range followUpStreams {
			source := checkpoint.Source{Appliance: sensor.name, Stream: stream}
			position, err := store.Position(t.Context(), source)
			require.NoError(t, err)
			switch count, events := w.kills[stream], of[source]; {
			case events == nil && w.answered[source]:
				count.uncommitted++
			case events == nil:
			case s.everySinkHas(sensor, events):
				count.delivered++
			default:
				count.undelivered++
			}
			sensor.follow.mu.Lock()
			sensor.follow.contact[stream] = sensor.follow.contact[stream] || position != nil
			sensor.follow.mu.Unlock()
		}
	}
}

// everySinkHas reports whether events have reached every sink that can be observed.
func (s *scene) everySinkHas(sensor *sensor, events []transform.Event) bool {
	for _, sink := range []string{webhookSink, natsSink, mirrorSink, kafkaSink} {
		if !sensor.book.Has(sink, events...) {
			return false
		}
	}
	return true
}

// judgeSteps logs how many kills were between which steps of each stream, and fails if none of many
// was.
func (s *scene) judgeSteps(t *testing.T, kills int) {
	t.Helper()
	for _, stream := range followUpStreams {
		n := s.steps.kills[stream]
		t.Logf("%s: %d kills before a commit, %d between it and the delivery, %d after that", stream, n.uncommitted, n.undelivered, n.delivered)
		assert.True(t, kills < manyKills || n.uncommitted > 0 && n.undelivered > 0, stream, "was not killed between its steps", *n)
	}
}

func newStepWatch() *stepWatch {
	w := &stepWatch{kills: make(map[string]*killCounts)}
	for _, stream := range followUpStreams {
		w.kills[stream] = new(killCounts)
	}
	return w
}
