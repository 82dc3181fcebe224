package crash

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
)

// handOver has the owner hand over. Any member that runs can be asked.
func (s *clusterScene) handOver(ctx context.Context, ask *clusterMember) error {
	client, err := admin.NewClient("http://"+ask.admin, "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, takeoverLimit)
	defer cancel()
	return admin.API.HandOver.Do(ctx, client, admin.None{})
}

// operate changes the configurations, reloads them and hands over until stop is called, while
// members may not run.
func (s *clusterScene) operate(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	random := rand.New(rand.NewPCG(s.seed, uint64(len(s.past))))
	var operating sync.WaitGroup
	operating.Go(func() {
		for ctx.Err() == nil {
			m := s.members[random.IntN(len(s.members))]
			if random.IntN(3) == 0 {
				_ = s.handOver(ctx, m) // nobody may own the log
			} else {
				m.reload(ctx, t)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	return func() { cancel(); operating.Wait() }
}

// reload changes the size of batches in a member's configuration, which it reloads if it runs.
func (m *clusterMember) reload(ctx context.Context, t *testing.T) {
	text, err := os.ReadFile(m.config)
	if err != nil {
		t.Error(err)
		return
	}
	small, large := batchOf(clusterBatch/2), batchOf(clusterBatch)
	changed := strings.Replace(string(text), large, small, 1)
	if changed == string(text) {
		changed = strings.Replace(changed, small, large, 1)
	}
	// A member that starts reads one or the other.
	if err := os.WriteFile(m.config+".new", []byte(changed), 0o600); err != nil {
		t.Error(err)
	} else if err := os.Rename(m.config+".new", m.config); err != nil {
		t.Error(err)
	}
	client, err := admin.NewClient("http://"+m.admin, "")
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = admin.API.Reload.Call(ctx, client, admin.None{}) // it may not run
}

// stall is what stalled receivers wait for.
type stall struct {
	mu   sync.Mutex
	over chan struct{} // nil: no receiver stalls
}

// begin has the receivers stall until fix is called.
func (s *stall) begin() (fix func(t *testing.T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := make(chan struct{})
	s.over = over
	return func(*testing.T) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over = nil
		close(over)
	}
}

// wait waits while receivers stall, until ctx is done. It reports whether it waited.
func (s *stall) wait(ctx context.Context) bool {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over == nil {
		return false
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	return true
}

func TestAStalledReceiverRecordsNothing(t *testing.T) {
	var s stall
	assert.False(t, s.wait(t.Context()), "it stalls before it should")
	fix := s.begin()
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.True(t, s.wait(ended), "it does not stall")
	fix(t)
	assert.False(t, s.wait(t.Context()), "it stalls afterwards")
}
