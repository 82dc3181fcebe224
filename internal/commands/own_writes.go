package commands

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
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// OwnWrites remembers the bridge's writes to the detections of one appliance that the poller has
// not delivered yet. Its methods are safe for concurrent use.
//
// A version is the bridge's own if every field that differs from the version delivered last has
// the value that the bridge wrote last, and all values are shown that it wrote since. A value that
// a detection showed before the bridge wrote it is another user's. A write is remembered before it
// is sent, so that no page shows one that is not.
type OwnWrites struct {
	mu     sync.Mutex
	writes map[int64]ownWrite // by detection id
	pruned int64              // mod_time up to which writes were dropped
}

// ownWrite is the sum of the bridge's writes to a detection.
type ownWrite struct {
	// Since is a mod_time that the version with the last write has not exceeded yet: Fields are
	// awaited until a later version was delivered.
	Since int64 `json:"since"`
	// Fields has the value last written to each field.
	Fields texts `json:"fields,omitempty"`

	open      bool  // the result is not known: Fields are awaited until a version shows them
	restored  bool  // an earlier process wrote it, and may have delivered it
	delivered int64 // mod_time of the version delivered last; 0: none since the start
}

// texts are values written to the tracked fields of a detection, by field name; an
// empty value is null.
type texts map[string]string

// keepOwnWrites is how long an own write is awaited, by the appliance's clock. A
// version that no stream reads, because of its filter, never arrives.
const keepOwnWrites = 7 * 24 * time.Hour

// ownWritesStore is where own writes are stored. *checkpoint.Store implements it, and
// documents the method.
type ownWritesStore interface {
	Expected(ctx context.Context, appliance string) ([]checkpoint.Entry, error)
}

// LoadOwnWrites returns the own writes to an appliance that store holds.
func LoadOwnWrites(ctx context.Context, store ownWritesStore, appliance string) (*OwnWrites, error) {
	entries, err := store.Expected(ctx, appliance)
	if err != nil {
		return nil, fmt.Errorf("read the own writes to %s: %w", appliance, err)
	}
	e := &OwnWrites{writes: make(map[int64]ownWrite)}
	for _, entry := range entries {
		id, err := strconv.ParseInt(entry.Key, 10, 64)
		var stored []ownWrite // earlier releases stored each write
		if err == nil {
			err = json.Unmarshal(entry.Value, &stored)
		}
		if err != nil {
			return nil, fmt.Errorf("read the own writes to detection %q of %s: %w", entry.Key, appliance, err)
		}
		for _, w := range stored {
			w.restored = true
			e.writes[id] = w.behind(e.writes[id])
		}
	}
	return e, nil
}

// behind returns the write together with those before it.
func (w ownWrite) behind(before ownWrite) ownWrite {
	fields := make(texts)
	maps.Copy(fields, before.Fields)
	maps.Copy(fields, w.Fields)
	w.Fields, w.delivered = fields, before.delivered
	return w
}

// IsOwnWrite reports whether the bridge itself made all changes to a detection since
// the version that was delivered last, which has the given mod_time and Tracked.
func (e *OwnWrites) IsOwnWrite(seen transform.Detection, lastModTime int64, last []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, ok := e.writes[seen.ID]
	return ok && (lastModTime <= w.Since || w.open) && w.Fields.explain(last, seen.Tracked)
}

// Delivered records that these versions are in the journal.
func (e *OwnWrites) Delivered(versions []transform.Detection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range versions {
		if w, ok := e.writes[v.ID]; ok {
			w.delivered = max(w.delivered, v.ModTime)
			if v.ModTime > w.Since && w.Fields.shownBy(v.Tracked) {
				w.open = false // the result was delivered
			}
			e.writes[v.ID] = w
		}
	}
}

// intend remembers that f is about to be written to detections that are now as given. It returns
// the writes that it has replaced.
func (e *OwnWrites) intend(now []transform.Detection, f texts) (replaced map[int64]ownWrite) {
	e.mu.Lock()
	defer e.mu.Unlock()
	replaced = make(map[int64]ownWrite, len(now))
	for _, d := range now {
		before := e.writes[d.ID]
		replaced[d.ID] = before
		switch {
		case before.delivered > before.Since:
			before.Fields = nil
		case before.restored: // a value that is not shown any more was delivered, or never arrived
			missing := before.Fields.without(d.Tracked)
			before.Fields = maps.Clone(before.Fields)
			maps.DeleteFunc(before.Fields, func(name, _ string) bool { _, is := missing[name]; return is })
		}
		w := ownWrite{Since: d.ModTime, Fields: f, open: true}
		if !before.open { // what another user wrote is not changed, and not awaited
			w.Fields = f.without(d.Tracked)
		}
		e.writes[d.ID] = w.behind(before)
	}
	return replaced
}

// undo takes back an intend, which has returned replaced.
func (e *OwnWrites) undo(replaced map[int64]ownWrite) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, w := range replaced {
		w.delivered = e.writes[id].delivered
		e.writes[id] = w
	}
}

// witness records the result of a write, given the detections before and after it.
func (e *OwnWrites) witness(before, after []transform.Detection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, was := range before {
		i := slices.IndexFunc(after, func(d transform.Detection) bool { return d.ID == was.ID })
		if i < 0 {
			continue
		}
		w, now := e.writes[was.ID], after[i]
		// A version that is not raised yet is awaited; of a raised one, whoever raised it, only
		// versions up to it can be the result.
		w.open, w.Since = false, max(was.ModTime, now.ModTime-1)
		e.writes[was.ID] = w
	}
}

// entries encodes the writes to detections for the store.
func (e *OwnWrites) entries(detections []transform.Detection) ([]checkpoint.Entry, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var entries []checkpoint.Entry
	for _, d := range detections {
		w := e.writes[d.ID]
		value, err := json.Marshal([]ownWrite{w})
		if err != nil {
			return nil, fmt.Errorf("encode the own writes to detection %d: %w", d.ID, err)
		}
		entries = append(entries, checkpoint.Entry{Key: strconv.FormatInt(d.ID, 10), Value: value, At: w.Since})
	}
	return entries, nil
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
	maps.DeleteFunc(e.writes, func(_ int64, w ownWrite) bool { return w.Since < before })
	return before, true
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
func (f texts) shownBy(tracked []byte) bool { return len(f.without(tracked)) == 0 }

// without returns the values of f that a version with the given Tracked does not have.
func (f texts) without(tracked []byte) texts {
	found := make(texts, len(f))
	for name, value := range jsonscan.Members(tracked) {
		found[string(name)] = transform.Text(value)
	}
	missing := maps.Clone(f)
	maps.DeleteFunc(missing, func(name, text string) bool { return found[name] == text })
	return missing
}
