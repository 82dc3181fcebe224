package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNotNew is returned by Init and Resume if another cluster exists. The text says what to do.
var ErrNotNew = errors.New("the cluster is not new")

// Init creates a cluster. It calls fill with the new identity, to begin the logs of all shards, and
// stores the settings after fill has succeeded. Members wait until then. If fill fails or the
// process ends before, the streams and the bucket have to be deleted. layout is the layout of the
// state.
func Init(ctx context.Context, r Registry, name string, shards, layout int, fill func(id string) error) error {
	final := settings{Name: name, Shards: shards, Layout: layout, ID: rand.Text()[:16]}
	marked := final
	marked.Creating = true
	revision, err := putSettings(ctx, r, marked, 0)
	if errors.Is(err, errConflict) {
		return notNew(ctx, r, name)
	}
	if err == nil {
		err = fill(final.ID)
	}
	if err == nil {
		_, err = putSettings(ctx, r, final, revision)
	}
	return err
}

// Resume stores the settings of the cluster with an identity again if NATS has lost them, before its
// logs are recovered. It returns ErrNotNew if the bucket belongs to another cluster.
func Resume(ctx context.Context, r Registry, name string, shards, layout int, id string) error {
	_, err := putSettings(ctx, r, settings{Name: name, Shards: shards, Layout: layout, ID: id}, 0)
	if !errors.Is(err, errConflict) {
		return err
	}
	stored, err := getSettings(ctx, r)
	if err == nil && stored.ID != id {
		err = fmt.Errorf("%w: the copy belongs to the cluster %q, and NATS has another one, %q; to use the copy, %s", ErrNotNew, id, stored.ID, deletion(name))
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

// notNew returns the reason why a cluster that has settings cannot be created.
func notNew(ctx context.Context, r Registry, name string) error {
	stored, err := getSettings(ctx, r)
	switch {
	case err != nil:
		return err
	case stored.Creating:
		return fmt.Errorf("%w: it is being created, or creating it failed; if it failed, %s", ErrNotNew, deletion(name))
	}
	return fmt.Errorf("%w: %q exists, and its state would be replaced; choose another cluster.name", ErrNotNew, name)
}

// deletion returns instructions to delete a cluster.
func deletion(name string) string {
	return fmt.Sprintf("delete the streams NDR_%[1]s_NN and NDR_%[1]s_snap and the bucket NDR_%[1]s", name)
}
