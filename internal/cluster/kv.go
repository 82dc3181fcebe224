package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// kv is a Registry in a key-value bucket of JetStream.
type kv struct {
	bucket func(context.Context) (jetstream.KeyValue, error)
	hide   func(error) error
}

// NewKV returns the registry that is kept in the bucket that bucket returns, or
// jetstream.ErrStreamNotFound as long as there is none. hide removes secrets from errors of the
// servers.
func NewKV(bucket func(context.Context) (jetstream.KeyValue, error), hide func(error) error) Registry {
	return &kv{bucket, hide}
}

// Get implements Registry.
func (k *kv) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	bucket, err := k.bucket(ctx)
	if err != nil {
		return nil, 0, k.known(err)
	}
	e, err := bucket.Get(ctx, key)
	if errors.Is(err, nats.ErrNoResponders) { // from a bucket that is gone, too
		if _, failed := bucket.Status(ctx); errors.Is(failed, jetstream.ErrStreamNotFound) {
			err = failed
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read key %s of bucket %s: %w", key, bucket.Bucket(), k.known(err))
	}
	return e.Value(), e.Revision(), nil
}

// Put implements Registry.
func (k *kv) Put(ctx context.Context, key string, value []byte, revision uint64) error {
	bucket, err := k.bucket(ctx)
	if err != nil {
		return k.known(err)
	}
	if revision == 0 {
		_, err = bucket.Create(ctx, key, value)
	} else {
		_, err = bucket.Update(ctx, key, value, revision)
	}
	if err != nil {
		return fmt.Errorf("write key %s of bucket %s: %w", key, bucket.Bucket(), k.known(err))
	}
	return nil
}

// known returns err without secrets, joined with the error of Registry that it corresponds to.
func (k *kv) known(err error) error {
	err = k.hide(err)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted), errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: %w", errNoKey, err)
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return fmt.Errorf("%w: %w", errConflict, err)
	}
	return err
}
