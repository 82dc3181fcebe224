package poller

import (
	"context"
	"fmt"
	"strconv"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// HasSeen reports whether the detections source of an appliance has been shown the
// detection with an id, whether or not it became an event, and has not forgotten it.
func HasSeen(ctx context.Context, store Store, appliance string, id int64) (bool, error) {
	source := checkpoint.Source{Appliance: appliance, Stream: transform.StreamDetections}
	values, err := store.Recall(ctx, source, []string{knownKey(id, true), knownKey(id, false)})
	if err != nil {
		return false, fmt.Errorf("recall a detection of %s: %w", source, err)
	}
	return values[0] != nil || values[1] != nil, nil
}

// knownKey returns the key under which a detection is remembered. A detection without a
// readable mod_time has a key of its own.
func knownKey(id int64, positioned bool) string {
	key := strconv.FormatInt(id, 10)
	if positioned {
		return key
	}
	return "#" + key
}
