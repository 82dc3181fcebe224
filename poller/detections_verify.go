package poller

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// maxVerified bounds the detections that are compared at once: their ids are held in
// memory.
const maxVerified = 10_000_000

// clockResolution is how far the appliance's clock may be ahead of the time of an answer, in
// milliseconds.
const clockResolution = 1000

// VerifyDetections compares, by id and mod_time, every detection that the appliance shows
// since a time with what is known of it. It changes nothing. It can run while the source does: what the source reads
// meanwhile is not a difference. It ends with what had changed when it began, because an
// appliance may change as fast as it is read. It returns ErrNoPosition if the stream was
// never read.
func VerifyDetections(ctx context.Context, client DetectionsClient, store Store, o DetectionsOptions, since time.Time, report VerifyReport) (Verification, error) {
	d := NewDetections(client, store, o)
	d.pages.polls = unreadableAfter // objects that the source has given up must not end this
	position, err := committedPosition(ctx, &d.stream, parsePosition[detectionsPosition])
	if err != nil {
		return Verification{}, err
	}
	// Older detections are forgotten, and could not be distinguished from ones that were
	// never read.
	from := max(since.UnixMilli(), position.Floor, position.ModTime-o.ForgetAfter.Milliseconds(), 1)
	v := newVerification(d.source.Stream, from, report)
	shown := make(map[int64]int64) // mod_time by id
	var suspects []key
	until := int64(math.MaxInt64) // what changed later is not compared
	w := newWalk(from - 1)
	for done := false; !done; {
		rows, _, err := d.fetch(ctx, w)
		if err != nil {
			return v.Verification, fmt.Errorf("verify %s: %w", d.source, err)
		}
		if until == math.MaxInt64 && d.clock > 0 { // it is 0 after nothing but objects that are too large
			until = max(d.clock+clockResolution, position.ModTime)
		}
		joined := false
		// A short page is not trusted to be the last.
		if joined, done, err = w.step(keysOf(rows), len(rows) == 0); err != nil {
			return v.Verification, fmt.Errorf("verify %s: %w", d.source, err)
		}
		if !joined {
			continue
		}
		done = done || w.bound >= until
		differ, err := d.compare(ctx, rows, shown)
		if err != nil {
			return v.Verification, err
		}
		suspects = append(suspects, differ...)
		if len(shown) > maxVerified {
			return v.Verification, fmt.Errorf("verify %s: the appliance shows more than %d detections; compare a shorter time", d.source, maxVerified)
		}
		report.Progress(v.Stream, len(shown), time.UnixMilli(max(w.read, from)))
	}
	v.Compared = len(shown)

	// Versions that the source has read in the meantime are not differences.
	if position, err = committedPosition(ctx, &d.stream, parsePosition[detectionsPosition]); err != nil {
		return v.Verification, err
	}
	different := make(map[int64]struct{}) // ids
	for _, o := range suspects {
		if _, again := different[o.id]; again || shown[o.id] != o.modTime {
			continue // it was seen twice, the last time in another version
		}
		differs, err := d.explain(ctx, v, o, position)
		if err != nil {
			return v.Verification, err
		}
		if differs {
			different[o.id] = struct{}{}
		}
	}
	v.Same = v.Compared - len(different)
	return v.Verification, nil
}

// compare adds the rows to shown, and returns those whose version is not the known one.
func (d *Detections) compare(ctx context.Context, rows []object, shown map[int64]int64) (differ []key, err error) {
	_, values, err := d.recall(ctx, rows)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		o := &rows[i]
		shown[o.id] = o.modTime
		if values[i] != nil {
			k, err := parseKnown(values[i])
			if err != nil {
				return nil, err
			}
			if k.isAt(o.modTime) && !k.dead {
				continue
			}
		}
		differ = append(differ, o.key)
	}
	return differ, nil
}

// explain reports how a version that is shown differs from what is known of it now, if it does.
func (d *Detections) explain(ctx context.Context, v *verification, o key, p detectionsPosition) (differs bool, err error) {
	values, err := d.store.Recall(ctx, d.source, []string{o.knownKey()})
	if err != nil {
		return false, fmt.Errorf("recall what is known of detection %d: %w", o.id, err)
	}
	var k known
	if values[0] != nil {
		if k, err = parseKnown(values[0]); err != nil {
			return false, err
		}
	}
	kind := DiffMissing
	switch {
	case k.dead && (!o.positioned() || k.modTime >= o.modTime):
		kind = diffDead
	case k.isAt(o.modTime), k.modTime > o.modTime:
		return false, nil // or a later version was read
	case o.modTime > p.ModTime:
		kind = diffPending
	}
	v.found(kind, strconv.FormatInt(o.id, 10), o.modTime, max(0, k.modTime))
	return true, nil
}
