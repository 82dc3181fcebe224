package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/test/natsserver"
	"ndrbridge/test/require"
)

// fakeRegistry is a Registry in memory that holds one key.
type fakeRegistry struct {
	mu       sync.Mutex
	value    []byte
	revision uint64 // 0: it holds nothing
}

func newFakeRegistry() *fakeRegistry { return &fakeRegistry{} }

func (f *fakeRegistry) Get(context.Context, string) ([]byte, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revision == 0 {
		return nil, 0, errNoKey
	}
	return f.value, f.revision, nil
}

func (f *fakeRegistry) Put(_ context.Context, _ string, value []byte, revision uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revision != revision {
		return errConflict
	}
	f.value, f.revision = value, revision+1
	return nil
}

// forget makes the registry lose what it holds.
func (f *fakeRegistry) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.value, f.revision = nil, 0
}

// connect returns a connection to a NATS server in this process.
func connect(t *testing.T) *nats.Conn {
	t.Helper()
	s, stop, err := natsserver.Start(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(stop)
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// kept returns the function that opens a bucket.
func kept(bucket jetstream.KeyValue) func(context.Context) (jetstream.KeyValue, error) {
	return func(context.Context) (jetstream.KeyValue, error) { return bucket, nil }
}

// bucket returns a key-value bucket of a NATS server in this process.
func bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(connect(t))
	require.NoError(t, err)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "NDR_test"})
	require.NoError(t, err)
	return kv
}

func asItIs(err error) error { return err }

func TestRegistries(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Registry{"in memory": newFakeRegistry(), "in NATS": NewKV(kept(bucket(t)), asItIs)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			if _, _, err := r.Get(ctx, "settings"); !errors.Is(err, errNoKey) {
				t.Errorf("a key that does not exist: %v", err)
			}
			require.NoError(t, r.Put(ctx, "settings", []byte("a"), 0))
			if err := r.Put(ctx, "settings", []byte("b"), 0); !errors.Is(err, errConflict) {
				t.Errorf("it is created a second time: %v", err)
			}
			value, revision, err := r.Get(ctx, "settings")
			if string(value) != "a" || err != nil {
				t.Fatalf("it is %q (%v)", value, err)
			}
			require.NoError(t, r.Put(ctx, "settings", []byte("b"), revision))
			if err := r.Put(ctx, "settings", []byte("c"), revision); !errors.Is(err, errConflict) {
				t.Errorf("it is written under an old revision: %v", err)
			}
		})
	}
}

// TestALostBucketHasNoSettings: a recovery must not wait for it.
func TestALostBucketHasNoSettings(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	bucket, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "NDR_test"})
	require.NoError(t, err)
	require.NoError(t, js.DeleteKeyValue(t.Context(), "NDR_test"))
	never := func(context.Context) (jetstream.KeyValue, error) { return nil, jetstream.ErrStreamNotFound }
	for _, open := range []func(context.Context) (jetstream.KeyValue, error){kept(bucket), never} {
		_, _, err = NewKV(open, asItIs).Get(t.Context(), "settings")
		require.ErrorIs(t, err, errNoKey)
	}
}

func TestErrorsOfServersAreHidden(t *testing.T) {
	t.Parallel()
	r := NewKV(kept(bucket(t)), func(error) error { return errors.New("hidden") })
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, _, read := r.Get(ctx, "settings")
	for _, err := range []error{read, r.Put(ctx, "settings", nil, 0), r.Put(ctx, "settings", nil, 1)} {
		if err == nil || !strings.HasSuffix(err.Error(), "hidden") {
			t.Error(err)
		}
	}
}
