package poller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// ErrNoPosition is returned if a stream has no position: it was never read from its
// appliance.
var ErrNoPosition = errors.New("the stream has never been read")

// Rewind moves the position of a stream back, so that its source reads again from there
// and delivers again what it finds, with the same event ids. A running source continues
// from the new position with its next poll. A position that is already before the time
// stays. Rewind returns ErrNoPosition if there is none, and an error if the stream is
// unknown.
func Rewind(ctx context.Context, store Store, source checkpoint.Source, to time.Time) error {
	const attempts = 10 // a running source may commit in between
	var err error
	for range attempts {
		var before []byte
		if before, err = store.Position(ctx, source); err != nil {
			return fmt.Errorf("rewind %s: %w", source, err)
		}
		var p position
		if p, err = positionOf(source, before); err != nil {
			return fmt.Errorf("rewind %s: %w", source, err)
		}
		p.rewind(max(0, to.UnixMilli()))
		err = store.Commit(ctx, checkpoint.Commit{Source: source, Expect: before, Position: encodePosition(p)})
		if !errors.Is(err, checkpoint.ErrFenced) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("rewind %s: %w", source, err)
	}
	return nil
}

// position is the position of a source.
type position interface {
	// rewind moves it back to a time in milliseconds since the epoch, at least 0, so that
	// everything from there on is delivered again.
	rewind(to int64)
	// reached is the time up to which it covers the stream; 0: not known.
	reached() int64
	// answered is the latest time at which the appliance is known to have answered.
	answered() int64
}

// positionOf parses the position of a source. It returns ErrNoPosition if there is none.
func positionOf(source checkpoint.Source, stored []byte) (p position, err error) {
	switch {
	case source.Stream == transform.StreamDetections:
		p = new(detectionsPosition)
	case source.Stream == transform.StreamAudit:
		p = new(auditPosition)
	case strings.HasPrefix(source.Stream, transform.StreamRecords+"/"):
		p = new(recordsPosition)
	default:
		return nil, fmt.Errorf("%q has no position in time: use detections, audit, or records/ and the name of a query", source.Stream)
	}
	if stored == nil {
		return nil, ErrNoPosition
	}
	if err := json.Unmarshal(stored, p); err != nil {
		return nil, fmt.Errorf("read the position %q: %w", stored, err)
	}
	return p, nil
}

func (p *detectionsPosition) reached() int64 { return p.ModTime }
func (p *recordsPosition) reached() int64    { return p.Until }

func (p *detectionsPosition) answered() int64 { return max(p.ModTime, p.Contact, p.Swept) }
func (p *recordsPosition) answered() int64    { return max(p.Until, p.Clock) }
func (p *auditPosition) answered() int64      { return max(p.reached(), p.Swept) }

func (p *auditPosition) reached() int64 {
	if p.Last == nil {
		return 0
	}
	return p.Last.Time
}

// ReadUpTo returns the appliance's time up to which the committed position of a stream
// covers it; the zero time if there is no position, or nothing after the stream's start
// was read yet. A source may have read further without finding anything.
func ReadUpTo(ctx context.Context, store Store, source checkpoint.Source) (time.Time, error) {
	committed, err := store.Position(ctx, source)
	if err != nil || committed == nil {
		return time.Time{}, err
	}
	p, err := positionOf(source, committed)
	if err != nil {
		return time.Time{}, fmt.Errorf("position of %s: %w", source, err)
	}
	at := p.reached()
	if at == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(at), nil
}

// LastAnswer returns when the appliance last answered about a stream, as far as the state shows:
// the beginning of an outage that was reported, or else the latest time in the stream's position,
// which is earlier if nothing had to be committed since. It is the zero time if the state has
// neither, and never in the future.
func LastAnswer(ctx context.Context, store Store, source checkpoint.Source) (time.Time, error) {
	committed, err := store.Position(ctx, source)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the position of %s: %w", source, err)
	}
	p, err := positionOf(source, committed)
	if errors.Is(err, ErrNoPosition) {
		return time.Time{}, nil
	} else if err != nil {
		return time.Time{}, fmt.Errorf("position of %s: %w", source, err)
	}
	var at time.Time
	if ms := p.answered(); ms > 1 { // auditPosition.Swept can be 1
		at = time.UnixMilli(ms)
	}
	reach, err := store.Position(ctx, checkpoint.Source{Appliance: source.Appliance, Stream: transform.StreamEvents})
	if err != nil {
		return time.Time{}, fmt.Errorf("read whether %s was reachable: %w", source.Appliance, err)
	}
	if reach != nil {
		reported, err := parsePosition[reachState](reach)
		if err != nil {
			return time.Time{}, err
		}
		if reported.Unreachable && reported.Since.After(at) {
			at = reported.Since
		}
	}
	if now := time.Now(); at.After(now) { // by the appliance's clock
		at = now
	}
	return at, nil
}
