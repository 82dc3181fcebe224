package poller

import (
	"context"
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
	var rewind func(position []byte, to int64) ([]byte, error)
	switch {
	case source.Stream == transform.StreamDetections:
		rewind = rewindDetections
	case source.Stream == transform.StreamAudit:
		rewind = rewindAudit
	case strings.HasPrefix(source.Stream, transform.StreamRecords+"/"):
		rewind = rewindRecords
	default:
		return fmt.Errorf("%q is not a stream: use detections, audit, or records/ and the name of a query", source.Stream)
	}
	const attempts = 10 // a running source may commit in between
	var err error
	for range attempts {
		var before, after []byte
		if before, err = store.Position(ctx, source); err != nil {
			return fmt.Errorf("rewind %s: %w", source, err)
		}
		if before == nil {
			return fmt.Errorf("rewind %s: %w", source, ErrNoPosition)
		}
		if after, err = rewind(before, max(0, to.UnixMilli())); err != nil {
			return fmt.Errorf("rewind %s: %w", source, err)
		}
		err = store.Commit(ctx, checkpoint.Commit{Source: source, Expect: before, Position: after})
		if !errors.Is(err, checkpoint.ErrFenced) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("rewind %s: %w", source, err)
	}
	return nil
}

func rewindDetections(position []byte, to int64) ([]byte, error) {
	p, err := parseDetectionsPosition(position)
	p.rewind(to)
	return p.encode(), err
}

func rewindAudit(position []byte, to int64) ([]byte, error) {
	p, err := parsePosition[auditPosition](position)
	p.rewind(to)
	return encodePosition(p), err
}

func rewindRecords(position []byte, to int64) ([]byte, error) {
	p, err := parsePosition[recordsPosition](position)
	p.rewind(to)
	return encodePosition(p), err
}

// ReadUpTo returns the appliance's time up to which the committed position of a stream
// covers it; the zero time if there is no position, or nothing after the stream's start
// was read yet. A source may have read further without finding anything.
func ReadUpTo(ctx context.Context, store Store, source checkpoint.Source) (time.Time, error) {
	committed, err := store.Position(ctx, source)
	if err != nil || committed == nil {
		return time.Time{}, err
	}
	var at int64
	switch source.Stream {
	case transform.StreamDetections:
		var p detectionsPosition
		p, err = parseDetectionsPosition(committed)
		at = p.ModTime
	case transform.StreamAudit:
		var p auditPosition
		if p, err = parsePosition[auditPosition](committed); p.Last != nil {
			at = p.Last.Time
		}
	default:
		var p recordsPosition
		p, err = parsePosition[recordsPosition](committed)
		at = p.Until
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("position of %s: %w", source, err)
	}
	if at == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(at), nil
}
