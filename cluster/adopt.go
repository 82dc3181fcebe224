package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNotNew is returned by Adopt if the cluster has run before. The text says what to do.
var ErrNotNew = errors.New("the cluster is not new")

// Adopt calls fill, which writes the first records of the logs of a new cluster, and stores
// the cluster's settings when fill has succeeded. Members that start before fail with
// ErrSettings. If fill fails or the process ends meanwhile, that stays so: the streams and
// the bucket have to be deleted. layout is that of the state.
func Adopt(ctx context.Context, r Registry, name string, shards, layout int, fill func() error) error {
	final := settings{Name: name, Shards: shards, Layout: layout}
	marked := final
	marked.Adopting = true
	revision, err := putSettings(ctx, r, marked, 0)
	if errors.Is(err, ErrConflict) {
		return notNew(ctx, r, name)
	}
	if err == nil {
		err = fill()
	}
	if err == nil {
		_, err = putSettings(ctx, r, final, revision)
	}
	return err
}

func putSettings(ctx context.Context, r Registry, s settings, revision uint64) (uint64, error) {
	value, err := json.Marshal(s)
	if err != nil {
		return 0, fmt.Errorf("encode the settings: %w", err)
	}
	return r.Put(ctx, settingsKey, value, revision)
}

// notNew returns why a cluster that has settings cannot adopt a state.
func notNew(ctx context.Context, r Registry, name string) error {
	e, err := r.Get(ctx, settingsKey)
	if err != nil {
		return fmt.Errorf("read the cluster's settings: %w", err)
	}
	var stored settings
	if json.Unmarshal(e.Value, &stored) == nil && stored.Adopting {
		return fmt.Errorf("%w: another adoption is running, or failed; if it failed, %s", ErrNotNew, stored.discard())
	}
	return fmt.Errorf("%w: members of %q have run already, and their state would be replaced; choose another cluster.name", ErrNotNew, name)
}
