package tickets

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"ndrbridge/checkpoint"
)

// ownWritesStore is where own writes are stored. *checkpoint.Store implements it, and
// documents the method.
type ownWritesStore interface {
	Expected(ctx context.Context, appliance string) ([]checkpoint.Entry, error)
}

// LoadOwnWrites returns the own writes to an appliance that store holds.
func LoadOwnWrites(ctx context.Context, store ownWritesStore, appliance string) (*OwnWrites, error) {
	entries, err := store.Expected(ctx, appliance)
	if err != nil {
		return nil, fmt.Errorf("read the own writes to %s: %w", appliance, err)
	}
	e := &OwnWrites{turn: make(chan struct{}, 1), contended: make(chan struct{}), writes: make(map[int64][]write)}
	for _, entry := range entries {
		id, err := strconv.ParseInt(entry.Key, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the own writes to %s: detection %q: %w", appliance, entry.Key, err)
		}
		var chain []write
		if err := json.Unmarshal(entry.Value, &chain); err != nil {
			return nil, fmt.Errorf("read the own writes to detection %d of %s: %w", id, appliance, err)
		}
		e.put(map[int64][]write{id: chain})
	}
	return e, nil
}
