package sinks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// ledger is the journal as observed by all models. Its lock also guards the models.
type ledger struct {
	mu     sync.Mutex
	seqs   map[string]uint64 // of events, by id
	ids    map[uint64]string
	poison map[string]poison // by id
	broken []string          // violated promises
}

// breaks records a violated promise. It is called with mu held.
func (l *ledger) breaks(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

// learn records the numbers of records that follow the number after, and checks that none
// is left out. It is called with mu held.
func (l *ledger) learn(after uint64, records []checkpoint.Record) {
	for i, r := range records {
		if r.Seq != after+1+uint64(i) {
			l.breaks("event %d follows %d: events between them were trimmed but not committed", r.Seq, after+uint64(i))
			return
		}
		id, known := l.ids[r.Seq]
		if seq := l.seqs[r.Event.ID]; known && id != r.Event.ID || seq != 0 && seq != r.Seq {
			l.breaks("event %d was %s, and is %s, which was event %d", r.Seq, id, r.Event.ID, seq)
		}
		l.ids[r.Seq], l.seqs[r.Event.ID] = r.Event.ID, r.Seq
	}
}

// sinkModel models a sink: the events that its target received, and the state that follows
// from them. All of the runner's accesses to the journal go through it.
type sinkModel struct {
	*ledger
	name  string
	skips bool // by its lag policy
	batch checkpoint.Batch
	well  form // how it reports poison if nothing else fails

	script       []answer // of the next Sends
	down         *answer  // of all Sends
	commitFaults []commitFault
	released     chan struct{} // closed and replaced to end the wait of a Send

	// The history, across crashes.
	accepted map[string]bool // by id
	wasDead  map[string]bool // was a dead letter once
	skipped  map[string]bool
	parked   map[string]bool // by id: first deliveries that are parked
	paused   bool
	// The expected state.
	dead      map[string]bool // keys of the dead letters
	behind    uint64          // skipped by the lag policy
	queued    uint64          // redeliveries asked for
	committed uint64          // of these

	life
}

// life is the history since the runner was started.
type life struct {
	store          *checkpoint.Store
	runner         *sinks.Runner
	open           *scripted
	running        bool
	crashed        bool // the store can no longer be written
	full           bool // its dead letters had no space
	fruitlessSends int  // Sends at the time fruitlessSince that acknowledged nothing
	fruitlessSince time.Time
	acknowledged   map[string]bool // by id
	again          map[checkpoint.RedeliveryOffset]bool
	loaded         map[checkpoint.RedeliveryOffset]checkpoint.Redelivered
	seen           map[string]bool   // by id: accepted or rejected
	latest         map[string]uint64 // by key, of first deliveries that were accepted
	latestAcked    map[string]uint64 // by key, of first deliveries that were acknowledged
}

// commitFault is a fault of a commit.
type commitFault int

const (
	commitSucceeds commitFault = iota
	commitFails
	commitUnreported // the commit is written, but returns an error
)

// redelivers reports whether redeliveries are queued. It is called with mu held.
func (o *sinkModel) redelivers() bool {
	next, err := o.store.Redeliver(context.Background(), o.name, checkpoint.RedeliveryOffset{}, checkpoint.Batch{MaxEvents: 1})
	return err != nil || len(next.Records) > 0
}

// sendsTooOften counts a Send and reports whether there were too many at the same time
// without an acknowledgement. It is called with mu held.
func (o *sinkModel) sendsTooOften() bool {
	if now := time.Now(); !now.Equal(o.fruitlessSince) {
		o.fruitlessSends, o.fruitlessSince = 0, now
	}
	o.fruitlessSends++
	if o.fruitlessSends == maxFruitlessSends {
		o.breaks("%s got %d Sends at the same time and acknowledged none", o.name, maxFruitlessSends)
	}
	return o.fruitlessSends >= maxFruitlessSends
}

// maxFruitlessSends is several times the number of Sends for bisecting a batch.
const maxFruitlessSends = 300

// checkBatch checks the events of a Send. It is called with mu held.
func (o *sinkModel) checkBatch(events []transform.Event) {
	if len(events) == 0 || len(events) > o.batch.MaxEvents {
		o.breaks("a batch of %d events, want at most %d", len(events), o.batch.MaxEvents)
	}
	cursor, err := o.store.Cursor(context.Background(), o.name)
	if err != nil {
		o.breaks("%v", err)
	}
	last := cursor
	for _, e := range events {
		if e.Redelivered {
			if _, was := o.offsetOf(e); !was {
				o.breaks("event %s is redelivered as %d, which nobody asked for", e.ID, e.Redelivery())
			}
			continue
		}
		if o.parked[e.ID] {
			continue
		}
		if seq := o.seqs[e.ID]; seq <= last {
			o.breaks("event %s, number %d, is sent after %d, is not marked as redelivered, and the cursor is at %d", e.ID, seq, last, cursor)
		} else {
			last = seq
		}
	}
}

// offsetOf returns the offset of a redelivery. It is called with mu held.
func (o *sinkModel) offsetOf(e transform.Event) (checkpoint.RedeliveryOffset, bool) {
	for offset, r := range o.loaded {
		if offset.Item == e.Redelivery() && r.Event.ID == e.ID {
			return offset, true
		}
	}
	return checkpoint.RedeliveryOffset{}, false
}

// take accepts an event. An event that was accepted without an acknowledgement, or was
// rejected before, may be sent again after later ones of its key. It is called with mu held.
func (o *sinkModel) take(e transform.Event) {
	o.accepted[e.ID] = true
	if !e.Redelivered && !o.seen[e.ID] {
		o.seen[e.ID] = true
		o.order(e, o.latest)
	}
}

// refuse records that an event was rejected, alone or with others. It is called with mu
// held.
func (o *sinkModel) refuse(err error, e transform.Event) {
	if class, _ := failure.ClassOf(err); class == failure.Rejected && !e.Redelivered {
		o.seen[e.ID] = true
	}
}

// acknowledge records an acknowledgement. It is called with mu held.
func (o *sinkModel) acknowledge(e transform.Event) {
	o.fruitlessSends = 0
	if e.Redelivered {
		if offset, was := o.offsetOf(e); was {
			o.again[offset] = true
		}
		return
	}
	o.acknowledged[e.ID] = true
	o.order(e, o.latestAcked)
}

// order checks that a version of a detection does not follow a later one. Other events
// are not ordered.
func (o *sinkModel) order(e transform.Event, latest map[string]uint64) {
	if e.Stream() != transform.StreamDetections || e.PartitionKey == "" {
		return
	}
	seq := o.seqs[e.ID]
	if before := latest[e.PartitionKey]; seq < before {
		o.breaks("%s got event %s, number %d, after number %d, both with the key %s", o.name, e.ID, seq, before, e.PartitionKey)
	}
	latest[e.PartitionKey] = seq
}

// watched is the journal of a sinkModel's runner. It checks all accesses, and commits fail
// according to the model's commitFaults.
type watched struct {
	*checkpoint.Store
	*sinkModel
}

var errCrashed = errors.New("the machine is off")

func (w watched) Read(ctx context.Context, after uint64, max checkpoint.Batch) ([]checkpoint.Record, error) {
	records, err := w.Store.Read(ctx, after, max)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.learn(after, records)
	return records, err
}

func (w watched) CommitDelivery(ctx context.Context, s checkpoint.Delivery) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	settled := map[string]bool{}
	for _, deadLetter := range s.Dead {
		settled[deadLetter.Key] = true
	}
	for _, p := range s.Parked {
		settled[p.Key] = true
	}
	for seq := s.Expect + 1; seq <= s.Cursor; seq++ {
		if !w.acknowledged[w.ids[seq]] && !settled[checkpoint.DeadKey(seq)] {
			w.breaks("the cursor moves to %d, and event %d is neither acknowledged nor dead-lettered nor parked", s.Cursor, seq)
		}
	}
	return w.commitWith(s.Dead, func() error {
		err := w.Store.CommitDelivery(ctx, s)
		if err == nil {
			w.park(s.Parked)
		}
		return err
	})
}

// park records that events were parked. It is called with mu held.
func (o *sinkModel) park(events []checkpoint.Parked) {
	for _, p := range events {
		if p.Offset == (checkpoint.RedeliveryOffset{}) {
			o.parked[o.ids[p.Seq]] = true
		}
	}
}

func (w watched) Parked(ctx context.Context, sink string, numbers []uint64, max checkpoint.Batch) ([]checkpoint.Parked, error) {
	events, err := w.Store.Parked(ctx, sink, numbers, max)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range events {
		if p.Offset != (checkpoint.RedeliveryOffset{}) {
			w.loaded[p.Offset] = p.Redelivered
		}
	}
	return events, err
}

func (w watched) CommitParked(ctx context.Context, c checkpoint.ParkedCommit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	dead := map[string]bool{}
	for _, deadLetter := range c.Dead {
		dead[deadLetter.Key] = true
	}
	events, err := w.Store.Parked(ctx, w.name, c.Done, checkpoint.Batch{})
	if err != nil {
		return err
	}
	for _, p := range events {
		acknowledged := w.acknowledged[p.Event.ID]
		if p.Offset != (checkpoint.RedeliveryOffset{}) {
			acknowledged = w.again[p.Offset]
		}
		if !acknowledged && !dead[p.Key] {
			w.breaks("event %s is not parked any more, and is neither acknowledged nor dead-lettered", p.Event.ID)
		}
	}
	return w.commitWith(c.Dead, func() error {
		err := w.Store.CommitParked(ctx, c)
		for _, p := range events {
			if err == nil && p.Offset == (checkpoint.RedeliveryOffset{}) {
				delete(w.parked, p.Event.ID)
			}
		}
		return err
	})
}

func (w watched) Redeliver(ctx context.Context, sink string, after checkpoint.RedeliveryOffset, max checkpoint.Batch) (checkpoint.Redelivery, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, err := w.Store.Redeliver(ctx, sink, after, max)
	for _, r := range next.Records {
		w.loaded[r.Offset] = r
	}
	return next, err
}

func (w watched) CommitRedelivery(ctx context.Context, s checkpoint.RedeliveryCommit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	settled := map[string]bool{}
	for _, deadLetter := range s.Dead {
		settled[deadLetter.Key] = true
	}
	for _, p := range s.Parked {
		settled[p.Key] = true
	}
	events := 0
	for offset, r := range w.loaded {
		if compareOffsets(offset, s.Expect) < 0 || compareOffsets(offset, s.Last) > 0 {
			continue
		}
		if events++; !w.again[offset] && !settled[r.Key] {
			w.breaks("redelivery %v is committed, and event %s is neither acknowledged nor dead-lettered nor parked", offset, r.Event.ID)
		}
	}
	if events != s.Events {
		w.breaks("redeliveries from %v to %v are committed as %d events, want %d", s.Expect, s.Last, s.Events, events)
	}
	return w.commitWith(s.Dead, func() error {
		err := w.Store.CommitRedelivery(ctx, s)
		if err == nil {
			w.sinkModel.committed += uint64(s.Events)
		}
		return err
	})
}

func compareOffsets(a, b checkpoint.RedeliveryOffset) int {
	return slices.Compare([]uint64{a.Item, a.Seq}, []uint64{b.Item, b.Seq})
}

// commitWith calls commit and records the dead letters, subject to the next commitFault. It
// is called with mu held.
func (o *sinkModel) commitWith(deadLetters []checkpoint.DeadLetter, commit func() error) error {
	if o.crashed {
		return errCrashed
	}
	fault := commitSucceeds
	if len(o.commitFaults) > 0 {
		fault, o.commitFaults = o.commitFaults[0], o.commitFaults[1:]
	}
	if fault == commitFails {
		return errors.New("no space left on device")
	}
	if err := commit(); err != nil {
		o.full = o.full || errors.Is(err, checkpoint.ErrDeadFull)
		return err
	}
	for _, deadLetter := range deadLetters {
		e, err := transform.Parse(deadLetter.Body)
		seq, err2 := strconv.ParseUint(deadLetter.Key, 10, 64)
		if err != nil || err2 != nil || o.ids[seq] != e.ID || e.Redelivered || deadLetter.Class != string(failure.Rejected) {
			o.breaks("dead letter %s, class %s: %s", deadLetter.Key, deadLetter.Class, deadLetter.Body)
		}
		o.dead[deadLetter.Key], o.wasDead[e.ID] = true, true
	}
	if fault == commitUnreported {
		return errors.New("input/output error")
	}
	return nil
}

func (w watched) Skip(ctx context.Context, s checkpoint.Skip) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crashed {
		return errCrashed
	}
	if !w.skips {
		w.breaks("%s skips up to %d, but its policy is to block", w.name, s.Cursor)
	}
	records, err := w.Store.Read(context.WithoutCancel(ctx), s.Expect, checkpoint.Batch{MaxEvents: int(s.Cursor - s.Expect)})
	if err != nil || len(records) != int(s.Cursor-s.Expect) {
		w.breaks("of %d events that are skipped, the journal holds %d (%v)", s.Cursor-s.Expect, len(records), err)
	}
	w.learn(s.Expect, records)
	var data struct{ Skipped transform.Skipped }
	if err := json.Unmarshal(s.Event.Data(), &data); err != nil || data.Skipped.Events != s.Cursor-s.Expect || data.Skipped.Sink != w.name {
		w.breaks("events %d to %d of %s are skipped, and the event of the skip is %s (%v)", s.Expect+1, s.Cursor, w.name, s.Event.Data(), err)
	}
	if err := w.Store.Skip(ctx, s); err != nil {
		return err
	}
	// The runner starts again after the skipped events, with events that it has already sent.
	clear(w.acknowledged)
	clear(w.seen)
	clear(w.latest)
	clear(w.latestAcked)
	w.behind += s.Cursor - s.Expect
	for _, r := range records {
		w.skipped[r.Event.ID] = true
	}
	return nil
}

// own reports whether an event is one of the bridge's own.
func own(id string) bool { return strings.HasPrefix(id, "sink.skipped-") }
