package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// settingsKey is the key of the cluster's settings in the registry.
const settingsKey = "settings"

// settings are what all members of a cluster must agree on. The first start stores them;
// they never change, but for Adopting.
type settings struct {
	Name   string `json:"name"`
	Shards int    `json:"shards"`
	Layout int    `json:"layout"` // of the state when the cluster was made: no member may be older
	// Adopting is set while the logs are filled with the state of a single bridge, and stays so if
	// that fails: no member may join.
	Adopting bool `json:"adopting,omitempty"`
}

// ErrSettings is returned if a member may not join: its configuration or version differs
// from that of the cluster. The text says what to do.
var ErrSettings = errors.New("this bridge does not fit the cluster")

// discard returns how to get rid of what a failed adoption left.
func (s settings) discard() string {
	return fmt.Sprintf("delete the streams NDR_%[1]s_NN and NDR_%[1]s_snap and the bucket NDR_%[1]s, or choose another cluster.name", s.Name)
}

// agree stores the settings of a new cluster, or compares them with those of the existing
// one. It returns ErrSettings if they do not fit.
func agree(ctx context.Context, r Registry, mine settings) error {
	value, err := json.Marshal(mine)
	if err != nil {
		return fmt.Errorf("encode the settings: %w", err)
	}
	e, err := r.Get(ctx, settingsKey)
	if errors.Is(err, ErrNoKey) {
		if _, err = r.Put(ctx, settingsKey, value, 0); err == nil {
			return nil
		}
		if errors.Is(err, ErrConflict) { // another member was first
			e, err = r.Get(ctx, settingsKey)
		}
	}
	if err != nil {
		return fmt.Errorf("compare the settings with the cluster's: %w", err)
	}
	var stored settings
	if len(e.Value) > maxValue {
		return fmt.Errorf("%w: the settings in the registry have %d bytes, more than %d; another program may use the bucket, choose another cluster.name", ErrSettings, len(e.Value), maxValue)
	}
	if err := json.Unmarshal(e.Value, &stored); err != nil {
		return fmt.Errorf("%w: the settings in the registry cannot be read: %w; another program may use the bucket, choose another cluster.name", ErrSettings, err)
	}
	switch {
	case stored.Name != mine.Name:
		return fmt.Errorf("%w: the bucket belongs to cluster %q; choose another cluster.name than %q", ErrSettings, stored.Name, mine.Name)
	case stored.Adopting:
		return fmt.Errorf("%w: cluster %q adopts the state of a single bridge, or failed to; start when \"ndrbridge cluster adopt\" has succeeded; if it failed, %s",
			ErrSettings, stored.Name, stored.discard())
	case stored.Shards != mine.Shards:
		return fmt.Errorf("%w: cluster %q was made with %d shards, which is fixed; set cluster.shards: %d instead of %d",
			ErrSettings, stored.Name, stored.Shards, stored.Shards, mine.Shards)
	case stored.Layout > mine.Layout:
		return fmt.Errorf("%w: the state of cluster %q has layout %d, this version reads up to %d; install a newer version",
			ErrSettings, stored.Name, stored.Layout, mine.Layout)
	}
	return nil
}
