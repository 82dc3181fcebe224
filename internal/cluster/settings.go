package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"ndrbridge/checkpoint"
)

// settingsKey is the key of the cluster's settings in the registry.
const settingsKey = "settings"

// settings are what all members of a cluster must agree on. Init stores them; apart from
// Creating, they never change.
type settings struct {
	Name   string `json:"name"`
	Shards int    `json:"shards"`
	Layout int    `json:"layout"` // of the state when the cluster was made: no member may be older
	// ID is the cluster's identity. Its logs and all copies of them have it, too.
	ID string `json:"id"`
	// Creating is true while the logs are being begun, and remains true if that fails: no member
	// may join then.
	Creating bool `json:"creating,omitempty"`
}

// ErrSettings is returned if a member may not join: its configuration or version differs
// from that of the cluster. The text says what to do.
var ErrSettings = errors.New("this bridge does not fit the cluster")

// getSettings reads the settings of a cluster.
func getSettings(ctx context.Context, r Registry) (s settings, err error) {
	e, err := r.Get(ctx, settingsKey)
	if errors.Is(err, errNoKey) {
		return s, fmt.Errorf("the bucket has no settings: create a new cluster with 'ndrbridge cluster init'; if the cluster has run before, NATS has lost them: continue from a copy with 'ndrbridge cluster recover': %w", err)
	}
	if err != nil {
		return s, fmt.Errorf("read the cluster's settings: %w", err)
	}
	if len(e.Value) > maxValue {
		return s, fmt.Errorf("%w: the settings in the registry have %d bytes, more than %d; another program may use the bucket, choose another cluster.name", ErrSettings, len(e.Value), maxValue)
	}
	if err := json.Unmarshal(e.Value, &s); err != nil {
		return s, fmt.Errorf("%w: the settings in the registry cannot be read: %w; another program may use the bucket, choose another cluster.name", ErrSettings, err)
	}
	return s, nil
}

// Check compares the settings of a member with the cluster's, and returns the cluster's identity. It
// returns ErrSettings if they do not fit, and another error while the cluster has none.
func Check(ctx context.Context, r Registry, name string, shards int) (id string, err error) {
	return agree(ctx, r, settings{Name: name, Shards: shards, Layout: checkpoint.Layout})
}

func agree(ctx context.Context, r Registry, mine settings) (id string, err error) {
	stored, err := getSettings(ctx, r)
	switch {
	case err != nil:
	case stored.Name != mine.Name:
		err = fmt.Errorf("%w: the bucket belongs to cluster %q; choose another cluster.name than %q", ErrSettings, stored.Name, mine.Name)
	case stored.Shards != mine.Shards:
		err = fmt.Errorf("%w: cluster %q was made with %d shards, which is fixed; set cluster.shards: %d instead of %d",
			ErrSettings, stored.Name, stored.Shards, stored.Shards, mine.Shards)
	case stored.Layout > mine.Layout:
		err = fmt.Errorf("%w: the state of cluster %q has layout %d, this version reads up to %d; install a newer version",
			ErrSettings, stored.Name, stored.Layout, mine.Layout)
	case stored.Creating:
		err = fmt.Errorf("the cluster is being created, or creating it failed; if it failed, %s, and create it again", deletion(stored.Name))
	}
	return stored.ID, err
}
