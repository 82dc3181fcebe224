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

// ownEvents makes the events that are about no appliance.
func ownEvents(config *configs.Config) transform.Encoder {
	return transform.Encoder{TypePrefix: config.Events.TypePrefix, Appliance: transform.Bridge}
}

// journal commits an event that is about no appliance. While the journal has no space,
// it waits, or, with wait false, uses its half of what is reserved, and fails with
// checkpoint.ErrFull once that is used up too. Several may do so at once.
func journal(ctx context.Context, store checkpoint.Sources, event transform.Event, now time.Time, wait bool) error {
	source := checkpoint.Source{Appliance: transform.Bridge, Stream: transform.StreamEvents}
	for {
		last, err := store.Position(ctx, source)
		if err != nil {
			return fmt.Errorf("read when the last one was: %w", err)
		}
		err = store.Commit(ctx, checkpoint.Commit{
			Source: source, Expect: last,
			Position: fmt.Appendf(nil, `{"last":%d}`, now.UnixMilli()),
			Events:   []transform.Event{event},
			NoWait:   !wait, Reserve: !wait,
		})
		if !errors.Is(err, checkpoint.ErrFenced) { // another was committed meanwhile
			return err
		}
	}
}
