package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
)

// settingsKey is the key of the cluster's settings in the registry.
const settingsKey = "settings"

// maxSettings bounds the settings that are read, in bytes.
const maxSettings = 64 << 10

// settings say which cluster NATS has, and which generation of its log is in use. They are stored
// when a generation is complete.
type settings struct {
	Name string `json:"name"`
	// ID is the cluster's identity. Its logs and all copies of them have it, too.
	ID         string `json:"id"`
	Generation uint64 `json:"generation"`
	Layout     int    `json:"layout"` // of the state that the generation began with: no member may be older
}

// identity returns the identity of the log in use.
func (s settings) identity() replicated.Identity {
	return replicated.Identity{Cluster: s.ID, Generation: s.Generation}
}

// Registry keeps the settings of a cluster. A Registry is safe for concurrent use.
// *replicated.JetStream implements it.
type Registry interface {
	// Get returns the value of key and its revision, or replicated.ErrNoKey. It may be out of date.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Put stores value under key if the key's revision is revision; 0: if the key does
	// not exist. It returns replicated.ErrConflict otherwise. After any other error it is not known
	// whether the value was stored.
	Put(ctx context.Context, key string, value []byte, revision uint64) error
}

// getSettings reads the settings of a cluster, and their revision. replicated.ErrNoKey: it has none.
func getSettings(ctx context.Context, r Registry, name string) (s settings, revision uint64, err error) {
	value, revision, err := r.Get(ctx, settingsKey)
	switch {
	case errors.Is(err, replicated.ErrNoKey):
		return s, 0, fmt.Errorf("NATS has no settings of the cluster: create a new one with 'ndrbridge cluster init'; if it has run before, NATS has lost its data: restore it, or continue from a copy with 'ndrbridge cluster recover': %w", err)
	case err != nil:
		return s, 0, fmt.Errorf("read the cluster's settings: %w", err)
	case len(value) > maxSettings:
		err = fmt.Errorf("they have %d bytes", len(value))
	default:
		err = json.Unmarshal(value, &s)
	}
	if err == nil && (s.Name != name || s.ID == "" || s.Generation == 0) {
		err = fmt.Errorf("they are not those of the cluster %q", name)
	}
	if err != nil {
		return s, 0, fmt.Errorf("the settings in the registry cannot be used: %w; another program may use the stream, choose another cluster.name", err)
	}
	if s.Layout > checkpoint.Layout {
		err = fmt.Errorf("%w: the state of the cluster has layout %d, this version reads up to %d; install the version that the other members have",
			checkpoint.ErrNewer, s.Layout, checkpoint.Layout)
	}
	return s, revision, err
}

// Generation returns the generation of a cluster's log that is in use. The error says what to do.
func Generation(ctx context.Context, r Registry, name string) (uint64, error) {
	s, _, err := getSettings(ctx, r, name)
	return s.Generation, err
}

func putSettings(ctx context.Context, r Registry, s settings, revision uint64) error {
	value, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the settings: %w", err)
	}
	return r.Put(ctx, settingsKey, value, revision)
}
