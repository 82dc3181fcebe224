package tickets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// OwnWrites is what the bridge wrote to one appliance and has yet to see there. Its
// methods are safe for concurrent use. Its invariants:
//
//   - Writing (a detection is read, changed, and read again) and reading (a page
//     is fetched and committed) exclude each other, by Turn. Nobody keeps the turn
//     while it waits for space in the journal, if somebody else wants it.
//   - The writes to a detection follow one another: each was made on the version
//     that the one before it made. Of the last alone it may not be known yet
//     which version it made, and whether it arrived.
//
// So a version is an own write where the version delivered last is the one that some of
// these writes was made on, and its own mod_time is that of a later one's result.
// One whose result is not known, after a crash or a lost answer, is matched by what
// it set, with the first version that is not older.
//
// An appliance may show what was written at once, and raise mod_time some time later:
// then a write results in two versions, of which the second changes nothing, and
// somebody else may have made others in between. While such a raise is due, a version
// without changes is an own write, unless a later write was made on a version of that
// mod_time with changes. If somebody else's edit leaves no trace in the tracked fields,
// or the write overwrites it, it is taken for the raise, and the raise that follows is
// not marked: it looks like another such edit.
type OwnWrites struct {
	turn chan struct{} // holds the token of whose turn it is

	mu        sync.Mutex
	waiting   int           // callers of Turn that wait
	contended chan struct{} // closed while there are any

	writes map[int64][]write // by the detection's id; none is empty
	pruned int64             // up to which mod_time they were dropped
}

// write is what was written to a detection at once.
type write struct {
	Since int64 `json:"since"` // the mod_time of the version that it was made on
	// ModTime is that of the version that it made: 0 if that is not known, Since if
	// the fields were shown and mod_time was not raised.
	ModTime int64 `json:"mod_time,omitempty"`
	Fields  texts `json:"fields,omitempty"`
	// Before is the Tracked of the version that it was made on, until ModTime is
	// known to have been raised.
	Before []byte `json:"before,omitempty"`
	// Base is a digest of the Tracked of the version that it was made on, if a write
	// before it may have raised the mod_time of that.
	Base []byte `json:"base,omitempty"`
	// RaiseBy is up to which mod_time a version without changes is what it made, or
	// 0 if mod_time was raised with the fields. A write with a Since of 0 stands for
	// those that were overtaken, and has nothing but this.
	RaiseBy int64 `json:"raise_by,omitempty"`
}

// lateRaise is how much later than its fields a write's mod_time may be raised and
// still be recognized, in the appliance's milliseconds, if other versions came in
// between.
const lateRaise = 10 * 60_000

// made records which version it made.
func (w *write) made(modTime int64) {
	if w.ModTime = modTime; modTime > w.Since {
		w.Before, w.RaiseBy = nil, 0
	}
}

// raised reports whether mod_time is known to have been raised.
func (w *write) raised() bool { return w.ModTime > w.Since }

// raiseDue reports whether some writes may still raise mod_time to a time.
func raiseDue(chain []write, modTime int64) bool {
	return slices.ContainsFunc(chain, func(w write) bool { return modTime <= w.RaiseBy })
}

// trackedDigest identifies the Tracked of a version.
func trackedDigest(tracked []byte) []byte {
	sum := sha256.Sum256(tracked)
	return sum[:8]
}

// overtaken returns what is left to expect of writes after a newer version was shown.
func overtaken(chain []write, modTime int64) []write {
	var by int64
	for _, w := range chain {
		by = max(by, w.RaiseBy)
	}
	if by <= modTime {
		return nil
	}
	return []write{{RaiseBy: by}}
}

// texts are what was written to tracked fields of a detection, by their names; empty:
// null.
type texts map[string]string

// keepOwnWrites is how long an own write is waited for, by the appliance's clock. A version
// that no stream reads, for its filter, never comes.
const keepOwnWrites = 7 * 24 * time.Hour

// LoadOwnWrites returns what is expected of an appliance by what store holds.
func LoadOwnWrites(ctx context.Context, store checkpoint.Commands, appliance string) (*OwnWrites, error) {
	entries, err := store.Expected(ctx, appliance)
	if err != nil {
		return nil, fmt.Errorf("read what was written to %s: %w", appliance, err)
	}
	e := &OwnWrites{turn: make(chan struct{}, 1), contended: make(chan struct{}), writes: make(map[int64][]write)}
	for _, entry := range entries {
		id, err := strconv.ParseInt(entry.Key, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read what was written to %s: detection %q: %w", appliance, entry.Key, err)
		}
		var chain []write
		if err := json.Unmarshal(entry.Value, &chain); err != nil {
			return nil, fmt.Errorf("read what was written to detection %d of %s: %w", id, appliance, err)
		}
		e.put(map[int64][]write{id: chain})
	}
	return e, nil
}

// Turn waits until nobody reads or writes, and keeps it so until end is called. The
// error is that of ctx.
func (e *OwnWrites) Turn(ctx context.Context) (end func(), err error) {
	end = func() { <-e.turn }
	select {
	case e.turn <- struct{}{}:
		return end, nil
	default:
	}
	e.wait(1)
	defer e.wait(-1)
	select {
	case e.turn <- struct{}{}:
		return end, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait counts a caller of Turn that begins to wait, or ends it.
func (e *OwnWrites) wait(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting += n; e.waiting == 0 {
		e.contended = make(chan struct{})
	} else if e.waiting == 1 && n > 0 {
		close(e.contended)
	}
}

// Contended returns a channel that is closed once somebody waits for the turn.
func (e *OwnWrites) Contended() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.contended
}

// IsOwnWrite reports whether all that happened to a detection since the version that was
// delivered last, of that mod_time and Tracked, is what the bridge wrote.
func (e *OwnWrites) IsOwnWrite(seen transform.Detection, lastModTime int64, last []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	chain := e.writes[seen.ID]
	wrote := make(texts)
	first := slices.IndexFunc(chain, func(w write) bool { return w.Since >= lastModTime })
	if first < 0 {
		first = len(chain)
	}
	later := first
	for later < len(chain) && chain[later].Since == lastModTime {
		later++
	}
	// on reports whether w was made on last with its mod_time raised.
	on := func(w write) bool { return w.Base != nil && bytes.Equal(w.Base, trackedDigest(last)) }
	raise := seen.ModTime > lastModTime && raiseDue(chain, seen.ModTime)
	if raise && raiseDue(chain[:later], seen.ModTime) && wrote.explain(last, seen.Tracked) &&
		(later == len(chain) || chain[later].Since > seen.ModTime || on(chain[later])) {
		return true
	}
	if first == later && first < len(chain) && !on(chain[first]) {
		return false
	}
	for i, w := range chain[first:] {
		maps.Copy(wrote, w.Fields)
		rest := chain[first+i+1:]
		switch {
		case w.ModTime == seen.ModTime, w.ModTime == 0 && w.Since <= seen.ModTime:
		case len(rest) > 1 || len(rest) == 1 && rest[0].ModTime != 0:
			continue // what was written later is shown, too
		case w.ModTime == w.Since && w.Since < seen.ModTime, raise:
		default:
			continue
		}
		if wrote.explain(last, seen.Tracked) {
			return true
		}
	}
	return false
}

// Delivered ends the wait for what these versions show, or have overtaken.
func (e *OwnWrites) Delivered(versions []transform.Detection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.writes) == 0 {
		return
	}
	for _, v := range versions {
		if chain, ok := e.writes[v.ID]; ok {
			n := slices.IndexFunc(chain, func(w write) bool { return w.Since >= v.ModTime })
			if n < 0 {
				n = len(chain)
			}
			e.set(v.ID, append(overtaken(chain[:n], v.ModTime), chain[n:]...))
		}
	}
}

// before returns what is expected of detections as they stand, without what a
// version that somebody else made has overtaken.
func (e *OwnWrites) before(detections []transform.Detection) map[int64][]write {
	e.mu.Lock()
	defer e.mu.Unlock()
	chains := make(map[int64][]write, len(detections))
	for _, d := range detections {
		chains[d.ID] = resolve(e.writes[d.ID], d)
	}
	return chains
}

// resolve finds out what became of the last write where that is not known, and
// returns nothing but raises that are due where the version that is there was made by
// somebody else.
func resolve(chain []write, now transform.Detection) []write {
	if len(chain) == 0 {
		return nil
	}
	chain = slices.Clone(chain)
	last := &chain[len(chain)-1]
	switch {
	case last.Since == 0:
		return overtaken(chain, now.ModTime)
	case last.raised():
	case last.Fields.explain(last.Before, now.Tracked):
		last.made(now.ModTime)
	case last.ModTime == 0 && (last.Since == now.ModTime || texts{}.explain(last.Before, now.Tracked)):
		// It did not arrive. If mod_time rose, that may be the raise of the one before.
		return resolve(chain[:len(chain)-1], now)
	default:
		return overtaken(chain, now.ModTime)
	}
	if last.ModTime != now.ModTime {
		return overtaken(chain, now.ModTime)
	}
	return chain
}

// maxChain bounds the writes to one detection that are waited for one by one.
const maxChain = 16

// intend adds a write of f to detections as they stand, which is about to be made
// when the appliance's clock shows clock, in milliseconds.
func intend(chains map[int64][]write, detections []transform.Detection, f texts, clock int64) map[int64][]write {
	next := make(map[int64][]write, len(chains))
	for _, d := range detections {
		w := write{Since: d.ModTime, Fields: f, Before: d.Tracked, RaiseBy: max(clock, d.ModTime) + lateRaise}
		if raiseDue(chains[d.ID], d.ModTime) {
			w.Base = trackedDigest(d.Tracked)
		}
		chain := append(slices.Clone(chains[d.ID]), w)
		if len(chain) > maxChain { // the first two count as one
			n := 0
			if chain[0].Since == 0 {
				n = 1
			}
			a, b := chain[n], chain[n+1]
			both := maps.Clone(a.Fields)
			maps.Copy(both, b.Fields)
			chain[n+1] = write{Since: a.Since, ModTime: b.ModTime, Fields: both, Base: a.Base, RaiseBy: max(a.RaiseBy, b.RaiseBy)}
			chain = slices.Delete(chain, n, n+1)
		}
		next[d.ID] = chain
	}
	return next
}

// witness finds the versions that a write made, given the detections before and
// after it in one turn. Where somebody else changed one in between, nothing is
// expected of it.
func witness(chains map[int64][]write, before, after []transform.Detection) map[int64][]write {
	is := make(map[int64]transform.Detection, len(after))
	for _, d := range after {
		is[d.ID] = d
	}
	next := make(map[int64][]write, len(chains))
	for _, was := range before {
		chain := slices.Clone(chains[was.ID])
		last := &chain[len(chain)-1]
		switch now, there := is[was.ID]; {
		case there && now.ModTime == was.ModTime && !last.Fields.shownBy(now.Tracked):
			// It is not to be seen yet.
		case there && last.Fields.explain(was.Tracked, now.Tracked):
			last.made(now.ModTime)
		default:
			chain = overtaken(chain, max(was.ModTime, now.ModTime))
		}
		next[was.ID] = chain
	}
	return next
}

// put replaces what is expected.
func (e *OwnWrites) put(chains map[int64][]write) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, chain := range chains {
		e.set(id, chain)
	}
}

func (e *OwnWrites) set(id int64, chain []write) {
	if len(chain) == 0 {
		delete(e.writes, id)
		return
	}
	e.writes[id] = chain
}

// prune drops what was waited for too long when something was written to a version
// of mod_time now, and says up to where the store should. Most often there is
// nothing to be done: ok is false.
func (e *OwnWrites) prune(now int64) (before int64, ok bool) {
	const seldom = 24 * time.Hour
	e.mu.Lock()
	defer e.mu.Unlock()
	before = now - keepOwnWrites.Milliseconds()
	if before < e.pruned+seldom.Milliseconds() {
		return 0, false
	}
	e.pruned = before
	maps.DeleteFunc(e.writes, func(_ int64, chain []write) bool { return lastTime(chain) < before })
	return before, true
}

// lastTime is the time by which the age of what is expected is measured.
func lastTime(chain []write) int64 { return max(chain[0].RaiseBy, chain[len(chain)-1].Since) }

// entriesOf encodes what is expected for the store.
func entriesOf(chains map[int64][]write) ([]checkpoint.Entry, error) {
	entries := make([]checkpoint.Entry, 0, len(chains))
	for _, id := range slices.Sorted(maps.Keys(chains)) {
		chain := chains[id]
		value, err := json.Marshal(chain)
		if err != nil {
			return nil, fmt.Errorf("encode what is written to detection %d: %w", id, err)
		}
		entry := checkpoint.Entry{Key: strconv.FormatInt(id, 10), Value: value}
		if len(chain) > 0 { // else it is kept as null, until it is dropped by its age
			entry.At = lastTime(chain)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// explain reports whether a version shows f, and nothing else that differs from
// another.
func (f texts) explain(before, after []byte) bool {
	for c := range transform.Changes(before, after) {
		if text, ok := f[c.Field]; !ok || text != transform.Text(c.To) {
			return false
		}
	}
	return f.shownBy(after)
}

// shownBy reports whether a version, by its Tracked, has the texts of f.
func (f texts) shownBy(tracked []byte) bool {
	found := make(texts, len(f))
	for name, value := range transform.Fields(tracked) {
		found[string(name)] = transform.Text(value)
	}
	for name, text := range f {
		if found[name] != text {
			return false
		}
	}
	return true
}
