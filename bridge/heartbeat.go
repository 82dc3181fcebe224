package bridge

import (
	"context"
	"log/slog"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/transform"
)

// heartbeat tells, by events in the journal, that the bridge lives, so that whoever
// listens can tell silence from a bridge that is gone.
type heartbeat struct {
	config  configs.Events
	every   time.Duration // 0: never
	events  transform.Encoder
	store   checkpoint.Sources
	version string
	started time.Time // when the bridge was
	log     *slog.Logger
}

// buildHeartbeat returns now, where it is to beat as it does.
func (b *Bridge) buildHeartbeat(config *configs.Config, now *heartbeat) *heartbeat {
	e := config.Events
	if now != nil && now.config == e {
		return now
	}
	return &heartbeat{
		config: e, every: time.Duration(e.Heartbeat),
		events: ownEvents(config),
		store:  b.store, version: b.version, started: b.started, log: b.log,
	}
}

// heartbeatName is the part's name.
const heartbeatName = "heartbeat"

func (h *heartbeat) start(ctx context.Context, ps *parts) {
	ps.start(ctx, heartbeatName, sourcePhase, prompt(h.run))
}

// run commits an event every so often until ctx ends.
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
		// One that waits for space in the journal gives way to the next, so that none
		// is old when it gets in.
		limited, cancel := context.WithTimeout(ctx, h.every)
		err := h.emit(limited)
		if err != nil && limited.Err() == nil {
			h.log.Warn("a heartbeat could not be journalled", "error", err)
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
