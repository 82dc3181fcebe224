package cluster

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/test/natsserver"
	"ndrbridge/test/require"
)

// fakeRegistry is a Registry in memory.
type fakeRegistry struct {
	mu      sync.Mutex
	entries map[string]Entry
	last    uint64
}

func newFakeRegistry() *fakeRegistry { return &fakeRegistry{entries: make(map[string]Entry)} }

func (f *fakeRegistry) Get(_ context.Context, key string) (Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.entries[key]; ok {
		return e, nil
	}
	return Entry{}, errNoKey
}

func (f *fakeRegistry) List(_ context.Context, prefix string) ([]Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []Entry
	for key, e := range f.entries {
		if strings.HasPrefix(key, prefix) {
			found = append(found, e)
		}
	}
	return found, nil
}

func (f *fakeRegistry) Put(_ context.Context, key string, value []byte, revision uint64) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries[key].Revision != revision {
		return 0, errConflict
	}
	f.last++
	f.entries[key] = Entry{Key: key, Value: value, Revision: f.last}
	return f.last, nil
}

func (f *fakeRegistry) Delete(_ context.Context, key string, revision uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries[key].Revision != revision {
		return errConflict
	}
	delete(f.entries, key)
	return nil
}

// copy returns what the registry has.
func (f *fakeRegistry) copy() *fakeRegistry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &fakeRegistry{entries: maps.Clone(f.entries), last: f.last}
}

// restore makes the registry forget what is not in an earlier copy of it.
func (f *fakeRegistry) restore(earlier *fakeRegistry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries, f.last = earlier.entries, earlier.last
}

// bucket returns a key-value bucket of a NATS server in this process.
func bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	s, stop, err := natsserver.Start(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(stop)
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "NDR_test"})
	require.NoError(t, err)
	return kv
}

func TestErrorsOfServersAreHidden(t *testing.T) {
	t.Parallel()
	kv, hidden := bucket(t), errors.New("hidden")
	r := NewKV(kv, func(error) error { return hidden })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, get := r.Get(ctx, "none")
	_, create := r.Put(ctx, "key", []byte("value"), 0)
	_, update := r.Put(ctx, "key", nil, 7)
	cancel()
	_, list := r.List(ctx, "")
	for _, err := range []error{get, update, list, r.Delete(ctx, "key", 7)} {
		if create != nil || !errors.Is(err, hidden) {
			t.Errorf("%v, want it to be hidden (%v)", err, create)
		}
	}
}

// TestRegistry runs the same calls against the fake and against JetStream.
func TestRegistry(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) Registry{
		"fake":      func(*testing.T) Registry { return newFakeRegistry() },
		"JetStream": func(t *testing.T) Registry { return NewKV(bucket(t), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			r := open(t)
			const key = "member.bridge-1"

			if _, err := r.Get(ctx, key); !errors.Is(err, errNoKey) {
				t.Errorf("Get of a key that does not exist: %v", err)
			}
			if found, err := r.List(ctx, memberPrefix); err != nil || len(found) != 0 {
				t.Errorf("List of nothing: %v, %v", found, err)
			}
			first, err := r.Put(ctx, key, []byte("1"), 0)
			require.NoError(t, err)
			if _, err := r.Put(ctx, key, []byte("2"), 0); !errors.Is(err, errConflict) {
				t.Errorf("Put of a key that exists: %v", err)
			}
			second, err := r.Put(ctx, key, []byte("2"), first)
			if err != nil || second <= first {
				t.Fatalf("Put: revision %d after %d, %v", second, first, err)
			}
			if _, err := r.Put(ctx, key, []byte("3"), first); !errors.Is(err, errConflict) {
				t.Errorf("Put over another revision: %v", err)
			}
			if _, err := r.Put(ctx, settingsKey, []byte("{}"), 0); err != nil {
				t.Fatal(err)
			}
			found, err := r.List(ctx, memberPrefix)
			if err != nil || len(found) != 1 || found[0].Key != key || string(found[0].Value) != "2" || found[0].Revision != second {
				t.Errorf("List: %v, %v", found, err)
			}
			if err := r.Delete(ctx, key, first); !errors.Is(err, errConflict) {
				t.Errorf("Delete of another revision: %v", err)
			}
			if err := r.Delete(ctx, key, second); err != nil {
				t.Error(err)
			}
			if _, err := r.Get(ctx, key); !errors.Is(err, errNoKey) {
				t.Errorf("Get of a deleted key: %v", err)
			}
			if found, err := r.List(ctx, memberPrefix); err != nil || len(found) != 0 {
				t.Errorf("List after Delete: %v, %v", found, err)
			}
			if third, err := r.Put(ctx, key, []byte("4"), 0); err != nil || third <= second {
				t.Errorf("Put after Delete: revision %d after %d, %v", third, second, err)
			}
		})
	}
}
