package cluster

import (
	"context"
	"sync"
	"testing"

	nats "github.com/nats-io/nats.go"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
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
		return nil, 0, replicated.ErrNoKey
	}
	return f.value, f.revision, nil
}

func (f *fakeRegistry) Put(_ context.Context, _ string, value []byte, revision uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revision != revision {
		return replicated.ErrConflict
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
	nc := require.Value(nats.Connect(s.ClientURL()))(t)
	t.Cleanup(nc.Close)
	return nc
}

func TestRegistries(t *testing.T) {
	t.Parallel()
	inNATS, err := replicated.OpenJetStream(t.Context(), connect(t), replicated.JetStreamOptions{Name: "test", Replicas: 1})
	require.NoError(t, err)
	_, _, err = inNATS.Generation(t.Context(), 1, true)
	require.NoError(t, err)
	for name, r := range map[string]Registry{"in memory": newFakeRegistry(), "in NATS": inNATS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			_, _, err := r.Get(ctx, "settings")
			assert.ErrorIs(t, err, replicated.ErrNoKey, "a key that does not exist")
			require.NoError(t, r.Put(ctx, "settings", []byte("a"), 0))
			assert.ErrorIs(t, r.Put(ctx, "settings", []byte("b"), 0), replicated.ErrConflict, "it is created a second time")
			value, revision, err := r.Get(ctx, "settings")
			require.Equal(t, string(value), "a", "it is")
			require.NoError(t, err)
			require.NoError(t, r.Put(ctx, "settings", []byte("b"), revision))
			assert.ErrorIs(t, r.Put(ctx, "settings", []byte("c"), revision), replicated.ErrConflict, "it is written under an old revision")
		})
	}
}
