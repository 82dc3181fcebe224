package bridge

import (
	"context"
	"log/slog"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/transform"
)

// heartbeat journals a periodic event, by which receivers can distinguish silence from
// a bridge that is gone.
type heartbeat struct {
	config  configs.Events
	every   time.Duration // 0: never
	events  transform.Encoder
	store   checkpoint.Sources
	version string
	started time.Time // start of the bridge
	log     *slog.Logger
}

// buildHeartbeat returns current if its configuration is unchanged, or a new heartbeat.
func (b *Bridge) buildHeartbeat(config *configs.Config, current *heartbeat) *heartbeat {
	e := config.Events
	if current != nil && current.config == e {
		return current
	}
	return &heartbeat{
		config: e, every: time.Duration(e.Heartbeat),
		events: ownEvents(config),
		store:  b.store, version: b.version, started: b.started, log: b.log,
	}
}

// heartbeatName is the name of the part.
const heartbeatName = "heartbeat"

func (h *heartbeat) start(ctx context.Context, ps *parts) {
	ps.start(ctx, heartbeatName, sourcePhase, prompt(h.run))
}

// run journals an event at each interval until ctx is done.
func (h *heartbeat) run(ctx context.Context) {
	if h.every == 0 {
		return
	}
	ticker := time.NewTicker(h.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// An event that waits for space in the journal is dropped in favour of the
		// next, so that none is old when it is journalled.
		limited, cancel := context.WithTimeout(ctx, h.every)
		err := h.emit(limited)
		if err != nil && limited.Err() == nil {
			h.log.Warn("failed to journal a heartbeat", "error", err)
		}
		cancel()
	}
}

func (h *heartbeat) emit(ctx context.Context) error {
	now := time.Now()
	event, err := h.events.Heartbeat(h.version, h.started, now)
	if err != nil {
		return err
	}
	return journal(ctx, h.store, event, now, true)
}
