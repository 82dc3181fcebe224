package cluster

import (
	"context"
	"errors"
)

// Errors of a Registry. They are returned wrapped.
var (
	// errConflict is returned if a key has another revision than the caller expects, or
	// exists although it should not. Nothing was written.
	errConflict = errors.New("the key was changed by another process")
	// errNoKey is returned if a key does not exist.
	errNoKey = errors.New("the key does not exist")
)

// Entry is a key of a Registry and its value.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64 // changes, and increases, with every write of the key
}

// Registry keeps small values that all members of a cluster see: the cluster's settings
// and one entry for each member. Writes are compare-and-set; reads may be stale.
// A Registry is safe for concurrent use.
type Registry interface {
	// Get returns the entry of key, or errNoKey.
	Get(ctx context.Context, key string) (Entry, error)
	// List returns the entries whose keys begin with prefix, which ends with a dot, in any
	// order. It returns maxEntries at most.
	List(ctx context.Context, prefix string) ([]Entry, error)
	// Put stores value under key if the key's revision is revision; 0: if the key does
	// not exist. It returns the new revision, or errConflict. After any other error it is
	// not known whether the value was stored.
	Put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	// Delete removes key if its revision is revision. Errors are those of Put.
	Delete(ctx context.Context, key string, revision uint64) error
}

// Bounds of what is read from a Registry, which other processes write.
const (
	maxEntries = 256
	maxValue   = 64 << 10 // bytes
)
