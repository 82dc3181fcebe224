package poller

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

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
		var p position
		p, err = parsePosition(committed)
		at = p.ModTime
	case transform.StreamAudit:
		var p auditPosition
		if p, err = parseAuditPosition(committed); p.Last != nil {
			at = p.Last.Time
		}
	default:
		var p recordsPosition
		p, err = parseRecordsPosition(committed)
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
