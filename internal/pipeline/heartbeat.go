package pipeline

import (
	"context"
	"errors"
	"fmt"
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
	store   *checkpoint.Store
	version string
	started time.Time // start of the process
	log     *slog.Logger
}

// buildHeartbeat returns current if its configuration is unchanged, or a new heartbeat.
func (p *Pipeline) buildHeartbeat(config *configs.Config, current *heartbeat) *heartbeat {
	e := config.Events
	if current != nil && current.config == e {
		return current
	}
	return &heartbeat{
		config: e, every: time.Duration(e.Heartbeat),
		events: p.ownEvents(config),
		store:  p.store, version: p.version, started: p.started, log: p.log,
	}
}

func (h *heartbeat) name() string { return "heartbeat" }

func (h *heartbeat) start(l lifetimes, ps *partSet) {
	ps.start(l.sources, h.name(), sourcePhase, prompt(h.run))
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

// OwnEvents returns the encoder of events that concern no appliance.
func OwnEvents(config *configs.Config) transform.Encoder {
	return transform.Encoder{Appliance: transform.Bridge}
}

// ownEvents is OwnEvents for this pipeline's journal.
func (p *Pipeline) ownEvents(config *configs.Config) transform.Encoder {
	e := OwnEvents(config)
	e.Shard = p.shard.name()
	return e
}

// journal commits an event that concerns no appliance. If the journal is full, it
// waits; with wait false it uses its half of the reserve instead, and returns
// checkpoint.ErrFull once that is used up, too. It may be called concurrently.
func journal(ctx context.Context, store *checkpoint.Store, event transform.Event, now time.Time, wait bool) error {
	source := checkpoint.Source{Appliance: transform.Bridge, Stream: transform.StreamEvents}
	for {
		last, err := store.Position(ctx, source)
		if err != nil {
			return fmt.Errorf("read the time of the last event: %w", err)
		}
		err = store.Commit(ctx, checkpoint.Commit{
			Source: source, Expect: last,
			Position: fmt.Appendf(nil, `{"last":%d}`, now.UnixMilli()),
			Events:   []transform.Event{event},
			NoWait:   !wait, Reserve: !wait,
		})
		if !errors.Is(err, checkpoint.ErrFenced) { // another event was committed meanwhile
			return err
		}
	}
}
