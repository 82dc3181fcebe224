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
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// ledger is what all outlets know of the journal. Its lock is that of the
// outlets, too.
type ledger struct {
	mu     sync.Mutex
	seqs   map[string]uint64 // of events, by id
	ids    map[uint64]string
	poison map[string]poison // by id
	broken []string          // promises
}

// breaks notes that a promise was broken. It is called with mu held.
func (l *ledger) breaks(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

// learn notes the numbers of records that follow on a number, none of which may
// be left out. It is called with mu held.
func (l *ledger) learn(after uint64, records []checkpoint.Record) {
	for i, r := range records {
		if r.Seq != after+1+uint64(i) {
			l.breaks("event %d follows on %d: what lies between was trimmed, and not settled", r.Seq, after+uint64(i))
			return
		}
		id, known := l.ids[r.Seq]
		if seq := l.seqs[r.Event.ID]; known && id != r.Event.ID || seq != 0 && seq != r.Seq {
			l.breaks("event %d was %s, and is %s, which was event %d", r.Seq, id, r.Event.ID, seq)
		}
		l.ids[r.Seq], l.seqs[r.Event.ID] = r.Event.ID, r.Seq
	}
}

// outlet is a sink, what its target has got, and what the state must therefore
// hold. Everything that its runner does to the journal goes through it.
type outlet struct {
	*ledger
	name  string
	skips bool // by its lag policy
	batch checkpoint.Batch
	well  form // how it tells of poison when nothing else is wrong

	script   []answer // of the next Sends
	down     *answer  // of all Sends
	settling []settleFault
	hurried  chan struct{} // closed and replaced when a Send must wait no more

	// What happened, whatever crashed since.
	taken   map[string]bool // by id
	buried  map[string]bool // was a dead letter once
	skipped map[string]bool
	paused  bool
	// What the state must say.
	dead    map[string]bool // keys of the dead letters
	behind  uint64          // skipped by the lag policy
	queued  uint64          // events that were to be redelivered
	settled uint64          // of those

	life
}

// life is what happened since the runner was started.
type life struct {
	store        *checkpoint.Store
	runner       *sinks.Runner
	open         *scripted
	running      bool
	crashed      bool // nothing reaches the store any more
	full         bool // its dead letters had no space
	vain         int  // Sends since vainSince that acknowledged nothing
	vainSince    time.Time
	acknowledged map[string]bool // by id
	again        map[checkpoint.RedeliveryOffset]bool
	handed       map[checkpoint.RedeliveryOffset]checkpoint.Redelivered
	seen         map[string]bool   // by id: taken, or refused for good
	latest       map[string]uint64 // by key, of what was taken in its turn
	latestAcked  map[string]uint64 // by key, of what was acknowledged in its turn
}

// settleFault is how a store fails a settlement.
type settleFault int

const (
	settles settleFault = iota
	settlesNot
	settlesUntold // it is written, and the caller is told otherwise
)

// redelivers reports whether there is something to redeliver. It is called with mu
// held.
func (o *outlet) redelivers() bool {
	next, err := o.store.Redeliver(context.Background(), o.name, checkpoint.Batch{MaxEvents: 1})
	return err != nil || len(next.Records) > 0
}

// storms notes a Send, and whether there were too many in no time, which nothing
// came of. It is called with mu held.
func (o *outlet) storms() bool {
	if now := time.Now(); !now.Equal(o.vainSince) {
		o.vain, o.vainSince = 0, now
	}
	o.vain++
	if o.vain == maxVain {
		o.breaks("%s got %d Sends in no time, none of which it acknowledged", o.name, maxVain)
	}
	return o.vain >= maxVain
}

// maxVain is several times what it takes to divide a batch into single events.
const maxVain = 300

// checkBatch is called with mu held.
func (o *outlet) checkBatch(events []transform.Event) {
	if len(events) == 0 || len(events) > o.batch.MaxEvents {
		o.breaks("a batch of %d events, and %d are allowed", len(events), o.batch.MaxEvents)
	}
	cursor, err := o.store.Cursor(context.Background(), o.name)
	if err != nil {
		o.breaks("%v", err)
	}
	last := cursor
	for _, e := range events {
		if e.Redelivered {
			if _, was := o.placeOf(e); !was {
				o.breaks("event %s is redelivered as %d, which nobody asked for", e.ID, e.Redelivery())
			}
			continue
		}
		if seq := o.seqs[e.ID]; seq <= last {
			o.breaks("event %s, which is number %d, comes behind %d, is not marked as redelivered, and the cursor is at %d", e.ID, seq, last, cursor)
		} else {
			last = seq
		}
	}
}

// recordKey is called with mu held.
func (o *outlet) placeOf(e transform.Event) (checkpoint.RedeliveryOffset, bool) {
	for place, r := range o.handed {
		if place.Item == e.Redelivery() && r.Event.ID == e.ID {
			return place, true
		}
	}
	return checkpoint.RedeliveryOffset{}, false
}

// take takes an event. What comes again because nobody knows that it was taken,
// or was refused before, may come behind others of its key. It is called with mu
// held.
func (o *outlet) take(e transform.Event) {
	o.taken[e.ID] = true
	if !e.Redelivered && !o.seen[e.ID] {
		o.seen[e.ID] = true
		o.order(e, o.latest)
	}
}

// refuse notes where an event was rejected, alone or with others. It is called
// with mu held.
func (o *outlet) refuse(err error, e transform.Event) {
	if class, _ := sinks.ClassOf(err); class == sinks.Rejected && !e.Redelivered {
		o.seen[e.ID] = true
	}
}

// acknowledge is called with mu held.
func (o *outlet) acknowledge(e transform.Event) {
	o.vain = 0
	if e.Redelivered {
		if place, was := o.placeOf(e); was {
			o.again[place] = true
		}
		return
	}
	o.acknowledged[e.ID] = true
	o.order(e, o.latestAcked)
}

// order checks that a version of a detection does not come behind a later one.
// Other events, such as the bridge's own, are in no order.
func (o *outlet) order(e transform.Event, latest map[string]uint64) {
	if e.Stream() != transform.StreamDetections || e.PartitionKey == "" {
		return
	}
	seq := o.seqs[e.ID]
	if before := latest[e.PartitionKey]; seq < before {
		o.breaks("%s got event %s, which is number %d, after number %d, and both are of %s", o.name, e.ID, seq, before, e.PartitionKey)
	}
	latest[e.PartitionKey] = seq
}

// watched is the journal of an outlet's runner. It checks what goes through it,
// and fails as is wanted.
type watched struct {
	*checkpoint.Store
	*outlet
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
	dead := map[string]bool{}
	for _, deadLetter := range s.Dead {
		dead[deadLetter.Key] = true
	}
	for seq := s.Expect + 1; seq <= s.Cursor; seq++ {
		if !w.acknowledged[w.ids[seq]] && !dead[checkpoint.DeadKey(seq)] {
			w.breaks("the cursor moves to %d, and event %d is neither acknowledged nor buried", s.Cursor, seq)
		}
	}
	return w.settle(s.Dead, func() error { return w.Store.CommitDelivery(ctx, s) })
}

func (w watched) Redeliver(ctx context.Context, sink string, max checkpoint.Batch) (checkpoint.Redelivery, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, err := w.Store.Redeliver(ctx, sink, max)
	for _, r := range next.Records {
		w.handed[r.Offset] = r
	}
	return next, err
}

func (w watched) CommitRedelivery(ctx context.Context, s checkpoint.RedeliveryCommit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	dead := map[string]bool{}
	for _, deadLetter := range s.Dead {
		dead[deadLetter.Key] = true
	}
	events := 0
	for place, r := range w.handed {
		if comparePlaces(place, s.Expect) < 0 || comparePlaces(place, s.Last) > 0 {
			continue
		}
		if events++; !w.again[place] && !dead[r.Key] {
			w.breaks("redelivery %v is settled, and event %s is neither acknowledged nor buried", place, r.Event.ID)
		}
	}
	if events != s.Events {
		w.breaks("redeliveries from %v to %v are settled as %d events, and they are %d", s.Expect, s.Last, s.Events, events)
	}
	return w.settle(s.Dead, func() error {
		err := w.Store.CommitRedelivery(ctx, s)
		if err == nil {
			w.outlet.settled += uint64(s.Events)
		}
		return err
	})
}

func comparePlaces(a, b checkpoint.RedeliveryOffset) int {
	return slices.Compare([]uint64{a.Item, a.Seq}, []uint64{b.Item, b.Seq})
}

// settle settles with its letters, unless a fault is due. It is called with mu
// held.
func (o *outlet) settle(deadLetters []checkpoint.DeadLetter, commit func() error) error {
	if o.crashed {
		return errCrashed
	}
	fault := settles
	if len(o.settling) > 0 {
		fault, o.settling = o.settling[0], o.settling[1:]
	}
	if fault == settlesNot {
		return errors.New("no space left on device")
	}
	if err := commit(); err != nil {
		o.full = o.full || errors.Is(err, checkpoint.ErrDeadFull)
		return err
	}
	for _, deadLetter := range deadLetters {
		e, err := transform.Parse(deadLetter.Body)
		seq, err2 := strconv.ParseUint(deadLetter.Key, 10, 64)
		if err != nil || err2 != nil || o.ids[seq] != e.ID || e.Redelivered || deadLetter.Class != string(sinks.Rejected) {
			o.breaks("dead letter %s, class %s: %s", deadLetter.Key, deadLetter.Class, deadLetter.Body)
		}
		o.dead[deadLetter.Key], o.buried[e.ID] = true, true
	}
	if fault == settlesUntold {
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
		w.breaks("%s skips up to %d, and its policy is to block", w.name, s.Cursor)
	}
	records, err := w.Store.Read(context.WithoutCancel(ctx), s.Expect, checkpoint.Batch{MaxEvents: int(s.Cursor - s.Expect)})
	if err != nil || len(records) != int(s.Cursor-s.Expect) {
		w.breaks("of %d events that are skipped, the journal holds %d (%v)", s.Cursor-s.Expect, len(records), err)
	}
	w.learn(s.Expect, records)
	var data struct{ Skipped transform.Skipped }
	if err := json.Unmarshal(s.Event.Data(), &data); err != nil || data.Skipped.Events != s.Cursor-s.Expect || data.Skipped.Sink != w.name {
		w.breaks("events %d to %d of %s are skipped, and what tells so is %s (%v)", s.Expect+1, s.Cursor, w.name, s.Event.Data(), err)
	}
	if err := w.Store.Skip(ctx, s); err != nil {
		return err
	}
	// The runner begins over behind it, with events that it has sent already.
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

// own reports whether an event is the bridge's.
func own(id string) bool { return strings.HasPrefix(id, "sink.skipped-") }
