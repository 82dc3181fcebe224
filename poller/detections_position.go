package poller

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// detectionsPosition is the position of a detections source. All times are the appliance's own, in
// milliseconds since the epoch.
type detectionsPosition struct {
	// ModTime is the mod_time up to which every version was seen, except versions that
	// become visible late. It is never ahead of the appliance's clock, so that a
	// mod_time in the future hides nothing.
	ModTime int64 `json:"mod_time"`
	// Whole less the overlap is the mod_time up to which nothing has to be read again:
	// what became visible late by no more than the overlap was read, too.
	Whole int64 `json:"whole"`
	// Start is what the stream's start resolved to at the first contact.
	Start int64 `json:"start"`
	// Contact is when the appliance was first asked.
	Contact int64 `json:"contact"`
	// Floor is the lowest mod_time that is read: Start, or less if the appliance's clock
	// went back before it.
	Floor int64 `json:"floor"`
	// Reread is set from when the position was moved back until a walk from there has
	// reached its end: what it shows is delivered although it is known.
	Reread bool `json:"again,omitempty"`
	// Swept is when the last sweep over the recent past began.
	Swept int64 `json:"swept"`
	// Page is the number of rows of the longest page that the appliance returned.
	Page int `json:"page,omitempty"`
	// URL and Filter are those last used, so that a change can be detected.
	URL    string `json:"url"`
	Filter string `json:"filter,omitempty"`
}

// markReread marks the rows of a page that are to be delivered again: those with a
// mod_time of at least from that the walk has not shown yet.
func markReread(rows []object, w *walk, from int64) {
	for i := range rows {
		r := &rows[i]
		_, seen := w.seen[r.key]
		r.reread = r.positioned() && !seen && from <= r.modTime
	}
}

// UnmarshalJSON decodes a position, in which Whole may be missing if it equals ModTime.
func (p *detectionsPosition) UnmarshalJSON(b []byte) error {
	type plain detectionsPosition
	if err := json.Unmarshal(b, (*plain)(p)); err != nil {
		return err
	}
	if p.Whole == 0 || p.Whole > p.ModTime {
		p.Whole = p.ModTime
	}
	return nil
}

// rewind moves the position back to a time in milliseconds since the epoch, at least 0.
func (p *detectionsPosition) rewind(to int64) {
	if to <= p.ModTime {
		p.Reread = true
		p.ModTime, p.Whole = to, min(p.Whole, to)
		p.Floor = min(p.Floor, to)
	}
}

// known is the remembered state of a detection.
type known struct {
	// modTime is the mod_time of the version last seen, or the object.version of one
	// whose mod_time could not be read.
	modTime int64
	// events counts the events made of versions with modTime: the id of the next one
	// needs a number that distinguishes it.
	events int
	// dead is set if the version last seen was given up.
	dead bool
	// created is transform.Detection.Created of the last version that has it; 0: not
	// known.
	created int64
	// tracked is transform.Detection.Tracked of the last version that became an
	// event; empty if there is none.
	tracked []byte
	// life is the lifecycle with that version.
	life transform.Lifecycle
	// context is what Contexts remember of that version; nil: it has its whole context.
	context []byte
}

// isOther reports whether after belongs to another detection than k, under the same id:
// the creation time of a detection never changes, but an upgrade may change its precision.
func (k known) isOther(after known) bool {
	return k.created != 0 && after.created != 0 && !jsonscan.SameMillis(k.created, after.created)
}

// isAt reports whether a version that is shown with a mod_time has that of the version last
// seen: after an upgrade it may be in whole seconds. A later one in the same second is not
// the same: only a precision that was lost makes a mod_time smaller.
func (k known) isAt(modTime int64) bool {
	return k.modTime == modTime || modTime < k.modTime && modTime%1000 == 0 && jsonscan.SameMillis(k.modTime, modTime)
}

// Flags in the encoding of known.
const (
	knownDead    = 1 << iota
	knownOwn     // the bridge's own versions, which earlier releases remembered, precede tracked
	knownCreated // created precedes these
	knownLife    // the times of life are at the end, followed by their size
	knownContext // context follows tracked, and then its size
)

// ownDigest is the length of the digest of an own version, which follows its mod_time.
const ownDigest = 8

func (k known) encode() []byte {
	b := make([]byte, 0, 7*binary.MaxVarintLen64+4+len(k.tracked)+len(k.context))
	b = binary.AppendVarint(b, k.modTime)
	b = binary.AppendUvarint(b, uint64(k.events))
	var flags byte
	if k.dead {
		flags |= knownDead
	}
	if k.created != 0 {
		flags |= knownCreated
	}
	life := k.life
	if life.FirstSeen == k.created {
		life.FirstSeen = 0
	}
	// Without tracked, an earlier release would take the times for it.
	hasLife := life != transform.Lifecycle{} && len(k.tracked) > 0
	if hasLife {
		flags |= knownLife
	}
	lacks := k.context != nil && len(k.tracked) > 0
	if lacks {
		flags |= knownContext
	}
	if b = append(b, flags); k.created != 0 {
		b = binary.AppendVarint(b, k.created)
	}
	b = append(b, k.tracked...)
	if lacks {
		b = binary.BigEndian.AppendUint16(append(b, k.context...), uint16(len(k.context)))
	}
	if end := len(b); hasLife {
		for _, t := range []int64{life.FirstSeen, life.Acknowledged, life.Closed, life.Reopened} {
			b = binary.AppendVarint(b, t)
		}
		b = append(b, byte(len(b)-end))
	}
	return b
}

// parseLife parses the times of life at the end of what is known, which it cuts off.
func (k *known) parseLife(b []byte) (rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, false
	}
	size := int(b[len(b)-1])
	b = b[:len(b)-1]
	if size > len(b) {
		return nil, false
	}
	rest, b = b[:len(b)-size], b[len(b)-size:]
	for _, t := range []*int64{&k.life.FirstSeen, &k.life.Acknowledged, &k.life.Closed, &k.life.Reopened} {
		var n int
		if *t, n = binary.Varint(b); n <= 0 {
			return nil, false
		}
		b = b[n:]
	}
	return rest, true
}

// parseContext parses context after tracked, which it cuts off.
func (k *known) parseContext(b []byte) (rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, false
	}
	size := int(binary.BigEndian.Uint16(b[len(b)-2:]))
	if b = b[:len(b)-2]; size > len(b) {
		return nil, false
	}
	k.context = b[len(b)-size:]
	return b[:len(b)-size], true
}

func parseKnown(b []byte) (known, error) {
	whole := b
	unreadable := func() (known, error) {
		return known{}, fmt.Errorf("the remembered state of a detection cannot be read: %x", whole)
	}
	modTime, n := binary.Varint(b)
	if n <= 0 {
		return unreadable()
	}
	b = b[n:]
	events, n := binary.Uvarint(b)
	if n <= 0 || len(b) == n {
		return unreadable()
	}
	k := known{modTime: modTime, events: int(events), dead: b[n]&knownDead != 0}
	flags := b[n]
	b = b[n+1:]
	if flags&knownCreated != 0 {
		if k.created, n = binary.Varint(b); n <= 0 {
			return unreadable()
		}
		b = b[n:]
	}
	if flags&knownOwn != 0 {
		if len(b) == 0 {
			return unreadable()
		}
		count := b[0]
		b = b[1:]
		for range count {
			if _, n = binary.Varint(b); n <= 0 || len(b) < n+ownDigest {
				return unreadable()
			}
			b = b[n+ownDigest:]
		}
	}
	var ok bool
	if flags&knownLife != 0 {
		if b, ok = k.parseLife(b); !ok {
			return unreadable()
		}
	}
	if flags&knownContext != 0 {
		if b, ok = k.parseContext(b); !ok {
			return unreadable()
		}
	}
	k.life.FirstSeen = cmp.Or(k.life.FirstSeen, k.created)
	k.tracked = transform.BoundTracked(b)
	return k, nil
}

// Seen is what the detections source of an appliance remembers about a detection.
type Seen struct {
	// ModTime is the mod_time of the version that was last seen; zero if it has none.
	ModTime time.Time
	// Created is when the detection was created; zero if that is not known.
	Created time.Time
	// Fields are the tracked fields of the last version that became an event, an object; empty
	// if none did.
	Fields []byte
	// Failed is true if the version that was last seen could not be converted into an event.
	Failed bool
}

// SeenOf returns what is remembered of a detection, whether or not it became an event; found is
// false if it was never shown, or is forgotten.
func SeenOf(ctx context.Context, store Store, appliance string, id int64) (seen Seen, found bool, err error) {
	source := checkpoint.Source{Appliance: appliance, Stream: transform.StreamDetections}
	values, err := store.Recall(ctx, source, []string{strconv.FormatInt(id, 10), unpositionedKey(id)})
	if err != nil {
		return seen, false, fmt.Errorf("recall a detection of %s: %w", source, err)
	}
	for _, value := range values {
		if value == nil {
			continue
		}
		k, err := parseKnown(value)
		if err != nil {
			return seen, false, err
		}
		at := func(milliseconds int64) time.Time {
			if milliseconds <= 0 {
				return time.Time{}
			}
			return time.UnixMilli(milliseconds).UTC()
		}
		return Seen{ModTime: at(k.modTime), Created: at(k.created), Fields: transform.FieldsOf(k.tracked), Failed: k.dead}, true, nil
	}
	return seen, false, nil
}

// knownKey returns the key under which a detection is remembered.
func (k key) knownKey() string {
	if k.positioned() {
		return strconv.FormatInt(k.id, 10)
	}
	return unpositionedKey(k.id)
}

// unpositionedKey returns the key under which a detection without a position is remembered.
func unpositionedKey(id int64) string { return "#" + strconv.FormatInt(id, 10) }
