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

// Registry keeps the settings of a cluster. A Registry is safe for concurrent use.
type Registry interface {
	// Get returns the value of key and its revision, or errNoKey. It may be out of date.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Put stores value under key if the key's revision is revision; 0: if the key does
	// not exist. It returns errConflict otherwise. After any other error it is not known
	// whether the value was stored.
	Put(ctx context.Context, key string, value []byte, revision uint64) error
}
