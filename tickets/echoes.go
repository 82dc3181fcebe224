package tickets

import (
	"context"
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

// Echoes is what the bridge wrote to one appliance and has yet to see there. Its
// methods are safe for concurrent use. Its invariants:
//
//   - Writing (a detection is read, changed, and read again) and reading (a page
//     is fetched and committed) exclude each other, by Turn. Nobody keeps the turn
//     while it waits for space in the journal, if somebody else wants it.
//   - The writes to a detection follow one another: each was made on the version
//     that the one before it made. Of the last alone it may not be known yet
//     which version it made, and whether it arrived.
//
// So a version is an echo where the version delivered last is the one that some of
// these writes was made on, and its own mod_time is that of a later one's result.
// One whose result is not known, after a crash or a lost answer, is matched by what
// it set, with the first version that is newer.
type Echoes struct {
	turn chan struct{} // holds the token of whose turn it is

	mu      sync.Mutex
	waiting int           // callers of Turn that wait
	wanted  chan struct{} // closed while there are any

	writes map[int64][]write // by the detection's id; none is empty
	pruned int64             // up to which mod_time they were dropped
}

// write is what was written to a detection at once.
type write struct {
	Since   int64 `json:"since"`              // the mod_time of the version that it was made on
	ModTime int64 `json:"mod_time,omitempty"` // of the version that it made; 0: not known
	Fields  texts `json:"fields"`
	// Before is the Tracked of the version that it was made on, until ModTime is
	// known.
	Before []byte `json:"before,omitempty"`
}

// made says which version it made.
func (w *write) made(modTime int64) { w.ModTime, w.Before = modTime, nil }

// texts are what was written to tracked fields of a detection, by their names; empty:
// null.
type texts map[string]string

// keepEchoes is how long an echo is waited for, by the appliance's clock. A version
// that no stream reads, for its filter, never comes.
const keepEchoes = 7 * 24 * time.Hour

// LoadEchoes returns what is expected of an appliance by what store holds.
func LoadEchoes(ctx context.Context, store checkpoint.Commands, appliance string) (*Echoes, error) {
	entries, err := store.Expected(ctx, appliance)
	if err != nil {
		return nil, fmt.Errorf("read what was written to %s: %w", appliance, err)
	}
	e := &Echoes{turn: make(chan struct{}, 1), wanted: make(chan struct{}), writes: make(map[int64][]write)}
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
func (e *Echoes) Turn(ctx context.Context) (end func(), err error) {
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
func (e *Echoes) wait(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting += n; e.waiting == 0 {
		e.wanted = make(chan struct{})
	} else if e.waiting == 1 && n > 0 {
		close(e.wanted)
	}
}

// Wanted returns a channel that is closed once somebody waits for the turn.
func (e *Echoes) Wanted() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted
}

// IsEcho says whether all that happened to a detection since the version that was
// delivered last, of that mod_time and Tracked, is what the bridge wrote.
func (e *Echoes) IsEcho(seen transform.Detection, lastModTime int64, last []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	chain := e.writes[seen.ID]
	first := slices.IndexFunc(chain, func(w write) bool { return w.Since == lastModTime })
	if first < 0 {
		return false
	}
	wrote := make(texts)
	for _, w := range chain[first:] {
		maps.Copy(wrote, w.Fields)
		if w.ModTime == seen.ModTime || w.ModTime == 0 && w.Since < seen.ModTime {
			return wrote.explain(last, seen.Tracked)
		}
	}
	return false
}

// Delivered ends the wait for what these versions show, or have overtaken.
func (e *Echoes) Delivered(versions []transform.Detection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.writes) == 0 {
		return
	}
	for _, v := range versions {
		if chain, ok := e.writes[v.ID]; ok {
			e.set(v.ID, slices.DeleteFunc(slices.Clone(chain), func(w write) bool { return w.Since < v.ModTime }))
		}
	}
}

// before returns what is expected of detections as they stand, without what a
// version that somebody else made has overtaken.
func (e *Echoes) before(detections []transform.Detection) map[int64][]write {
	e.mu.Lock()
	defer e.mu.Unlock()
	chains := make(map[int64][]write, len(detections))
	for _, d := range detections {
		chains[d.ID] = resolve(e.writes[d.ID], d)
	}
	return chains
}

// resolve finds out what became of the last write where that is not known, and
// returns nothing where the version that is there was made by somebody else.
func resolve(chain []write, now transform.Detection) []write {
	if len(chain) == 0 {
		return nil
	}
	chain = slices.Clone(chain)
	last := &chain[len(chain)-1]
	switch {
	case last.ModTime != 0:
	case last.Since == now.ModTime: // it did not arrive
		chain = chain[:len(chain)-1]
	case last.Fields.explain(last.Before, now.Tracked):
		last.made(now.ModTime)
	}
	if len(chain) == 0 || chain[len(chain)-1].ModTime != now.ModTime {
		return nil
	}
	return chain
}

// maxChain bounds the writes to one detection that are waited for one by one.
const maxChain = 16

// intend adds a write of f to detections as they stand, which is about to be made.
func intend(chains map[int64][]write, detections []transform.Detection, f texts) map[int64][]write {
	next := make(map[int64][]write, len(chains))
	for _, d := range detections {
		chain := append(slices.Clone(chains[d.ID]), write{Since: d.ModTime, Fields: f, Before: d.Tracked})
		if len(chain) > maxChain { // the first two count as one
			both := maps.Clone(chain[0].Fields)
			maps.Copy(both, chain[1].Fields)
			chain[1] = write{Since: chain[0].Since, ModTime: chain[1].ModTime, Fields: both}
			chain = chain[1:]
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
			chain = nil
		}
		next[was.ID] = chain
	}
	return next
}

// put replaces what is expected.
func (e *Echoes) put(chains map[int64][]write) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, chain := range chains {
		e.set(id, chain)
	}
}

func (e *Echoes) set(id int64, chain []write) {
	if len(chain) == 0 {
		delete(e.writes, id)
		return
	}
	e.writes[id] = chain
}

// prune drops what was waited for too long when something was written to a version
// of mod_time now, and says up to where the store should. Most often there is
// nothing to be done: ok is false.
func (e *Echoes) prune(now int64) (before int64, ok bool) {
	const seldom = 24 * time.Hour
	e.mu.Lock()
	defer e.mu.Unlock()
	before = now - keepEchoes.Milliseconds()
	if before < e.pruned+seldom.Milliseconds() {
		return 0, false
	}
	e.pruned = before
	maps.DeleteFunc(e.writes, func(_ int64, chain []write) bool { return chain[len(chain)-1].Since < before })
	return before, true
}

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
			entry.At = chain[len(chain)-1].Since
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// explain says whether a version shows f, and nothing else that differs from
// another.
func (f texts) explain(before, after []byte) bool {
	for c := range transform.Changes(before, after) {
		if text, ok := f[c.Field]; !ok || text != transform.Text(c.To) {
			return false
		}
	}
	return f.shownBy(after)
}

// shownBy says whether a version, by its Tracked, has the texts of f.
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
