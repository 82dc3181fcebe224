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
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// OwnWrites tracks the writes to one appliance that the bridge has made and the pollers
// have not seen yet. Its methods are safe for concurrent use.
//
// Invariants:
//
//   - Writing (a detection is read, changed, and read again) and reading (a page
//     is fetched and committed) exclude each other by Turn. No holder keeps the
//     turn while it waits for space in the journal if another caller wants it.
//   - The writes to a detection form a chain: each was made on the version that
//     the previous one made. Only for the last one it may be unknown which
//     version it made and whether it arrived.
//
// A version is an own write if the version delivered last is the one that some write of
// the chain was made on, and its mod_time is that of the result of a later one. A write
// whose result is unknown, after a crash or a lost response, matches the first version
// that is not older and has the fields it set.
//
// An appliance may show the written fields at once and raise mod_time some time later.
// The write then results in two versions, of which the second changes nothing, and
// other users may have made versions in between. While such a raise is due, a version
// without changes is an own write, unless a later write was made on a version of that
// mod_time that has changes. If another user's edit leaves no trace in the tracked
// fields, or the write overwrites it, it is mistaken for the raise; the raise that
// follows is then not marked as an own write, and looks like another such edit.
type OwnWrites struct {
	turn chan struct{} // semaphore

	mu        sync.Mutex
	waiting   int           // number of callers waiting in Turn
	contended chan struct{} // closed while waiting > 0

	writes map[int64][]write // by detection id; chains are never empty
	pruned int64             // mod_time up to which writes were dropped
}

// write is a single write to a detection.
type write struct {
	Since int64 `json:"since"` // mod_time of the version that it was made on
	// ModTime is the mod_time of the version that it made: 0 if unknown, Since if the
	// fields were shown but mod_time was not raised.
	ModTime int64 `json:"mod_time,omitempty"`
	Fields  texts `json:"fields,omitempty"`
	// Before is the Tracked of the version that it was made on. It is nil once ModTime
	// is known to have been raised.
	Before []byte `json:"before,omitempty"`
	// Base is the trackedDigest of the version that it was made on. It is set only if an
	// earlier write may have raised the mod_time of that version.
	Base []byte `json:"base,omitempty"`
	// RaiseBy is the mod_time up to which a version without changes counts as the
	// result of this write, or 0 if mod_time was raised with the fields. A write whose
	// Since is 0 stands for overtaken writes and has no other fields.
	RaiseBy int64 `json:"raise_by,omitempty"`
}

// lateRaise is how much later than its fields a write's mod_time may be raised and
// still be recognized if other versions came in between, in milliseconds of the
// appliance's clock.
const lateRaise = 10 * 60_000

// made records the mod_time of the version that w made.
func (w *write) made(modTime int64) {
	if w.ModTime = modTime; modTime > w.Since {
		w.Before, w.RaiseBy = nil, 0
	}
}

// raised reports whether mod_time is known to have been raised.
func (w *write) raised() bool { return w.ModTime > w.Since }

// raiseDue reports whether a write of the chain may still raise mod_time to modTime.
func raiseDue(chain []write, modTime int64) bool {
	return slices.ContainsFunc(chain, func(w write) bool { return modTime <= w.RaiseBy })
}

// trackedDigest returns digests of the Tracked of a version, one for each list up to its
// own: of two versions that were read by releases with other lists, the beginnings are
// compared.
func trackedDigest(tracked []byte) (digests []byte) {
	for _, form := range transform.TrackedForms(tracked) {
		sum := sha256.Sum256(form)
		digests = append(digests, sum[:8]...)
	}
	return digests
}

// overtaken returns the raises that a chain may still produce after a newer version of
// modTime was shown.
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

// texts are the values written to the tracked fields of a detection, by field name; an
// empty value is null.
type texts map[string]string

// keepOwnWrites is how long an own write is awaited, by the appliance's clock. A
// version that no stream reads, because of its filter, never arrives.
const keepOwnWrites = 7 * 24 * time.Hour

// Turn waits for the exclusive right to read or write the appliance's detections, which
// the caller holds until it calls end. It returns an error only if ctx is done.
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

// wait adds n to the number of callers waiting in Turn.
func (e *OwnWrites) wait(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting += n; e.waiting == 0 {
		e.contended = make(chan struct{})
	} else if e.waiting == 1 && n > 0 {
		close(e.contended)
	}
}

// Contended returns a channel that is closed while a caller waits in Turn.
func (e *OwnWrites) Contended() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.contended
}

// IsOwnWrite reports whether the bridge itself made all changes to a detection since
// the version that was delivered last, which has the given mod_time and Tracked.
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
	// on reports whether w was made on last after its mod_time was raised.
	on := func(w write) bool {
		digests := trackedDigest(last)
		return w.Base != nil && (bytes.HasPrefix(digests, w.Base) || bytes.HasPrefix(w.Base, digests))
	}
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
			continue // a later write is shown, too
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

// Delivered drops the writes that the versions show or have overtaken.
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

// before returns the chains of detections as they are now, without writes that another
// user's version has overtaken.
func (e *OwnWrites) before(detections []transform.Detection) map[int64][]write {
	e.mu.Lock()
	defer e.mu.Unlock()
	chains := make(map[int64][]write, len(detections))
	for _, d := range detections {
		chains[d.ID] = resolve(e.writes[d.ID], d)
	}
	return chains
}

// resolve determines the outcome of the last write if it is unknown. If the current
// version was made by another user, it returns only the raises that are still due.
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
		// It did not arrive. If mod_time rose, the previous write may have raised it.
		return resolve(chain[:len(chain)-1], now)
	default:
		return overtaken(chain, now.ModTime)
	}
	if last.ModTime != now.ModTime {
		return overtaken(chain, now.ModTime)
	}
	return chain
}

// maxChain limits the writes per detection that are tracked individually.
const maxChain = 16

// intend appends a write of f to the chains of detections as they are now. clock is the
// appliance's time shortly before the write, in milliseconds.
func intend(chains map[int64][]write, detections []transform.Detection, f texts, clock int64) map[int64][]write {
	next := make(map[int64][]write, len(chains))
	for _, d := range detections {
		w := write{Since: d.ModTime, Fields: f, Before: d.Tracked, RaiseBy: max(clock, d.ModTime) + lateRaise}
		if raiseDue(chains[d.ID], d.ModTime) {
			w.Base = trackedDigest(d.Tracked)
		}
		chain := append(slices.Clone(chains[d.ID]), w)
		if len(chain) > maxChain { // merge the first two
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

// witness determines the versions that a write made from the detections before and
// after it, both read in one turn. If another user changed a detection in between, its
// write is no longer expected.
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
			// The write is not visible yet.
		case there && last.Fields.explain(was.Tracked, now.Tracked):
			last.made(now.ModTime)
		default:
			chain = overtaken(chain, max(was.ModTime, now.ModTime))
		}
		next[was.ID] = chain
	}
	return next
}

// put replaces the chains of the given detections.
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

// prune drops writes that were awaited for too long; now is the mod_time of a version
// just written to. If ok is set, the caller must drop entries before that mod_time from
// the store, too. Most calls have nothing to do.
func (e *OwnWrites) prune(now int64) (before int64, ok bool) {
	const interval = 24 * time.Hour
	e.mu.Lock()
	defer e.mu.Unlock()
	before = now - keepOwnWrites.Milliseconds()
	if before < e.pruned+interval.Milliseconds() {
		return 0, false
	}
	e.pruned = before
	maps.DeleteFunc(e.writes, func(_ int64, chain []write) bool { return lastTime(chain) < before })
	return before, true
}

// lastTime returns the time that determines the age of a chain.
func lastTime(chain []write) int64 { return max(chain[0].RaiseBy, chain[len(chain)-1].Since) }

// entriesOf encodes chains for the store.
func entriesOf(chains map[int64][]write) ([]checkpoint.Entry, error) {
	entries := make([]checkpoint.Entry, 0, len(chains))
	for _, id := range slices.Sorted(maps.Keys(chains)) {
		chain := chains[id]
		value, err := json.Marshal(chain)
		if err != nil {
			return nil, fmt.Errorf("encode the own writes to detection %d: %w", id, err)
		}
		entry := checkpoint.Entry{Key: strconv.FormatInt(id, 10), Value: value}
		if len(chain) > 0 { // an empty chain is stored as null until it is pruned
			entry.At = lastTime(chain)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// explain reports whether after has the values of f and otherwise equals before. A new
// ticket_id may change ticket_url, which the appliance makes from it.
func (f texts) explain(before, after []byte) bool {
	_, linked := f["ticket_id"]
	for c := range transform.Changes(before, after) {
		if linked && c.Field == "ticket_url" {
			continue
		}
		if text, ok := f[c.Field]; !ok || text != transform.Text(c.To) {
			return false
		}
	}
	return f.shownBy(after)
}

// shownBy reports whether a version with the given Tracked has the values of f.
func (f texts) shownBy(tracked []byte) bool {
	found := make(texts, len(f))
	for name, value := range jsonscan.Members(tracked) {
		found[string(name)] = transform.Text(value)
	}
	for name, text := range f {
		if found[name] != text {
			return false
		}
	}
	return true
}
