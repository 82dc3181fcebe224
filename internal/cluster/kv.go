package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// kv is a Registry in a key-value bucket of JetStream.
type kv struct {
	bucket jetstream.KeyValue
	hide   func(error) error
}

// NewKV returns the registry that is kept in bucket. hide, if not nil, removes secrets from
// errors of the servers.
func NewKV(bucket jetstream.KeyValue, hide func(error) error) Registry {
	if hide == nil {
		hide = func(err error) error { return err }
	}
	return &kv{bucket, hide}
}

// Get implements Registry.
func (k *kv) Get(ctx context.Context, key string) (Entry, error) {
	e, err := k.bucket.Get(ctx, key)
	if err != nil {
		return Entry{}, fmt.Errorf("read key %s of bucket %s: %w", key, k.bucket.Bucket(), k.known(err))
	}
	return entry(e), nil
}

// List implements Registry.
func (k *kv) List(ctx context.Context, prefix string) (entries []Entry, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("list keys %s* of bucket %s: %w", prefix, k.bucket.Bucket(), k.hide(err))
		}
	}()
	watcher, err := k.bucket.Watch(ctx, prefix+">", jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case e, open := <-watcher.Updates():
			switch {
			case !open:
				return nil, errors.New("the connection was closed")
			case e == nil: // these were all
				return entries, nil
			case len(entries) < maxEntries && len(e.Value()) <= maxValue:
				entries = append(entries, entry(e))
			}
		}
	}
}

// Put implements Registry.
func (k *kv) Put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	var stored uint64
	var err error
	if revision == 0 {
		stored, err = k.bucket.Create(ctx, key, value)
	} else {
		stored, err = k.bucket.Update(ctx, key, value, revision)
	}
	if err != nil {
		return 0, fmt.Errorf("write key %s of bucket %s: %w", key, k.bucket.Bucket(), k.known(err))
	}
	return stored, nil
}

// Delete implements Registry.
func (k *kv) Delete(ctx context.Context, key string, revision uint64) error {
	if err := k.bucket.Delete(ctx, key, jetstream.LastRevision(revision)); err != nil {
		return fmt.Errorf("delete key %s of bucket %s: %w", key, k.bucket.Bucket(), k.known(err))
	}
	return nil
}

func entry(e jetstream.KeyValueEntry) Entry {
	return Entry{Key: e.Key(), Value: e.Value(), Revision: e.Revision()}
}

// known returns err without secrets, joined with the error of Registry that it corresponds to.
func (k *kv) known(err error) error {
	err = k.hide(err)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return errors.Join(errNoKey, err)
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return errors.Join(errConflict, err)
	}
	return err
}
