package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/transform"
)

// ownEvents returns the encoder of events that concern no appliance.
func ownEvents(config *configs.Config) transform.Encoder {
	return transform.Encoder{TypePrefix: config.Events.TypePrefix, Appliance: transform.Bridge}
}

// journal commits an event that concerns no appliance. If the journal is full, it
// waits; with wait false it uses its half of the reserve instead, and returns
// checkpoint.ErrFull once that is used up, too. It may be called concurrently.
func journal(ctx context.Context, store checkpoint.Sources, event transform.Event, now time.Time, wait bool) error {
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
