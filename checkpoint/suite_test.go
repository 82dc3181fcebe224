package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// backend is how a suite opens states: files alone, or copies of logs.
type backend struct {
	// open opens the state at a path, or creates an empty one. Opening the path of a
	// closed store shows the state that it had.
	open func(path string, o checkpoint.Options) (*checkpoint.Store, error)
	// crash returns the path of the state that a crash at this moment would leave. The
	// store that has path open continues to run.
	crash func(path string) (string, error)
	// follow returns a follower of the state at a path; nil if it has no log.
	follow func(path string) *follower
}

// run runs the whole suite, each test on a state of its own and beside the others, since they
// mostly wait for the disk.
func (b backend) run(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"sources":                           b.testSources,
		"space in the journal":              b.testSpace,
		"cursors":                           b.testCursors,
		"reading":                           b.testReading,
		"waiting":                           b.testWaiting,
		"dead letters":                      b.testDead,
		"trimming":                          b.testTrimming,
		"lag":                               b.testLag,
		"a clock that is set":               b.testClockSet,
		"when a clock counts as set":        b.testClockBounds,
		"skipping":                          b.testSkipping,
		"redelivery":                        b.testRedelivery,
		"parked events":                     b.testParked,
		"trimming queued ranges":            b.testQueuedTrimming,
		"waiting for redelivery":            b.testRedeliveryWaiting,
		"space for dead letters of sources": b.testSourceDeadSpace,
		"dropping dead letters":             b.testDroppingDead,
		"forgetting and renaming sinks":     b.testSinkNames,
		"forgetting appliances":             b.testForgettingAppliances,
		"sinks' memories":                   b.testMemory,
		"commands":                          b.testCommands,
		"IDs of commands":                   b.testCommandIDs,
		"space for commands":                b.testCommandSpace,
		"any order of calls about commands keeps the guarantees": b.testCommandProperties,
		"backup":         b.testBackup,
		"closing":        b.testClosing,
		"concurrent use": b.testConcurrency,
		"any order of calls keeps the guarantees": b.testProperties,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// spacious holds back nothing that these tests do.
var spacious = checkpoint.Limits{MaxBytes: 1 << 30, Retain: 24 * time.Hour}

var (
	detections = checkpoint.Source{Appliance: "hq", Stream: transform.StreamDetections}
	audit      = checkpoint.Source{Appliance: "hq", Stream: transform.StreamAudit}
)

// noon is where the clock of the tests begins.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that a test sets.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.now.Store(noon.UnixMilli())
	return c
}

func (c *clock) Now() time.Time { return time.UnixMilli(c.now.Load()).UTC() }

func (c *clock) advance(d time.Duration) { c.now.Add(d.Milliseconds()) }

// event makes an event whose structured form has about size bytes.
func event(id string, recorded time.Time, size int) transform.Event {
	e, err := transform.New(transform.Attributes{
		ID: id, Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created",
		PartitionKey: id, Appliance: "hq", RecordedTime: recorded,
	}, fmt.Appendf(nil, `{"detection":{"pad":%q}}`, strings.Repeat("x", max(0, size-250))))
	if err != nil {
		panic(err)
	}
	return e
}

// events makes n events that are recorded a second apart, from noon on.
func events(n, size int) []transform.Event {
	made := make([]transform.Event, n)
	for i := range made {
		made[i] = event(fmt.Sprintf("e%d", i+1), noon.Add(time.Duration(i)*time.Second), size)
	}
	return made
}

func bytesOf(events []transform.Event) (n int64) {
	for _, e := range events {
		n += int64(len(e.Structured()))
	}
	return n
}

// state is an open store that a test drives. Its methods fail the test where
// the store returns an error.
type state struct {
	*checkpoint.Store
	t        tester
	backend  backend
	path     string
	options  checkpoint.Options
	clock    *clock
	follower *follower // nil if the state has no log
}

// tester is a test, or a run of a property.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func (b backend) state(t testing.TB, limits checkpoint.Limits) *state {
	t.Helper()
	s := b.stateAt(t, filepath.Join(t.TempDir(), "state"), limits)
	t.Cleanup(func() { s.Close() })
	return s
}

func (b backend) stateAt(t tester, path string, limits checkpoint.Limits) *state {
	t.Helper()
	c := newClock()
	s := &state{t: t, backend: b, path: path, clock: c, options: checkpoint.Options{Limits: limits, Now: c.Now}}
	s.openStore()
	return s
}

// at opens another state with the same options.
func (s *state) at(path string) *state {
	s.t.Helper()
	other := *s
	other.path = path
	other.openStore()
	return &other
}

// crashed opens the state that a crash at this moment would leave.
func (s *state) crashed() *state {
	s.t.Helper()
	path, err := s.backend.crash(s.path)
	s.must(err)
	return s.at(path)
}

func (s *state) openStore() {
	s.t.Helper()
	var err error
	s.Store, err = s.backend.open(s.path, s.options)
	s.must(err)
	if s.backend.follow != nil {
		s.follower = s.backend.follow(s.path)
	}
}

// Stats returns an error if a replica that follows the log does not get to the state.
func (s *state) Stats(ctx context.Context) (checkpoint.Stats, error) {
	stats, err := s.Store.Stats(ctx)
	if err == nil && s.follower != nil {
		err = s.follower.compare(s.Store)
	}
	return stats, err
}

func (s *state) Close() error {
	err := s.Store.Close()
	if s.follower != nil {
		err = errors.Join(err, s.follower.close())
	}
	return err
}

func (s *state) reopen() {
	s.t.Helper()
	s.must(s.Close())
	s.openStore()
}

func (s *state) must(err error) {
	s.t.Helper()
	require.NoError(s.t, err)
}

// wantRefused checks that each of some calls returned an error.
func (s *state) wantRefused(errs ...error) {
	s.t.Helper()
	for i, err := range errs {
		assert.Error(s.t, err, "call", i, "no")
	}
}

func equal[T comparable](t tester, got, want T) {
	t.Helper()
	assert.Equal(t, got, want)
}

// begin runs a call beside the test.
func begin(call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return ended
}

// commitIntoFull begins a commit and returns when it waits for space.
func (s *state) commitIntoFull(ctx context.Context, c checkpoint.Commit) <-chan error {
	s.t.Helper()
	done := begin(func() error { return s.Commit(ctx, c) })
	s.until("a commit waits for space", func() bool {
		select {
		case err := <-done:
			s.t.Fatalf("a commit into a full journal: %v, want it to wait", err)
		default:
		}
		return s.stats().SourcesWait
	})
	return done
}

// configureSinks configures sinks that begin with all that is there.
func (s *state) configureSinks(sinks ...string) {
	s.t.Helper()
	starts := map[string]checkpoint.Start{}
	for _, sink := range sinks {
		starts[sink] = checkpoint.Start{}
	}
	s.configure(starts)
}

// append commits events from the position that is current.
func (s *state) append(events ...transform.Event) {
	s.t.Helper()
	s.must(s.Commit(s.t.Context(), s.next(events...)))
}

// next is a commit of events for detections from the position that is current.
func (s *state) next(events ...transform.Event) checkpoint.Commit {
	s.t.Helper()
	position := s.position(detections)
	return checkpoint.Commit{
		Source: detections, Expect: position, Position: append(bytes.Clone(position), '.'), Events: events,
	}
}

func (s *state) position(source checkpoint.Source) []byte {
	s.t.Helper()
	position, err := s.Position(s.t.Context(), source)
	s.must(err)
	return position
}

func (s *state) configure(sinks map[string]checkpoint.Start) {
	s.t.Helper()
	s.must(s.Configure(s.t.Context(), sinks))
}

func (s *state) cursor(sink string) uint64 {
	s.t.Helper()
	seq, err := s.Cursor(s.t.Context(), sink)
	s.must(err)
	return seq
}

func (s *state) acknowledge(sink string, to uint64, dead ...checkpoint.DeadLetter) {
	s.t.Helper()
	s.must(s.CommitDelivery(s.t.Context(), checkpoint.Delivery{Sink: sink, Expect: s.cursor(sink), Cursor: to, Dead: dead}))
}

func (s *state) read(after uint64) []checkpoint.Record {
	s.t.Helper()
	records, err := s.Read(s.t.Context(), after, checkpoint.Batch{})
	s.must(err)
	return records
}

func (s *state) stats() checkpoint.Stats {
	s.t.Helper()
	stats, err := s.Stats(s.t.Context())
	s.must(err)
	return stats
}

func (s *state) dead(o checkpoint.Owner) []checkpoint.DeadLetter {
	s.t.Helper()
	deadLetters, err := s.Dead(s.t.Context(), o, "", 1<<20)
	s.must(err)
	return deadLetters
}

// wantJournal checks that the journal after seq holds exactly these events, in
// this order and without a hole.
func (s *state) wantJournal(after uint64, want ...transform.Event) {
	s.t.Helper()
	records := s.read(after)
	require.Equal(s.t, len(records), len(want), "the journal after", after, "holds", "events")
	for i, r := range records {
		require.Equal(s.t, r.Seq, after+1+uint64(i), "event", i, "has the sequence number")
		if !bytes.Equal(r.Event.Structured(), want[i].Structured()) || r.Event.Attributes != want[i].Attributes {
			s.t.Fatalf("event %d is\n%s, want\n%s", r.Seq, r.Event.Structured(), want[i].Structured())
		}
	}
}

// until waits for what a store does by itself.
func (s *state) until(what string, done func() bool) {
	s.t.Helper()
	for ctx := s.t.Context(); !done(); time.Sleep(time.Millisecond) {
		require.NoError(s.t, ctx.Err(), "timed out waiting until", what)
	}
}

// cancelled is a context that has ended.
func cancelled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
