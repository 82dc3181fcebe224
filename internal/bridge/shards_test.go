package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/pipeline"
	"ndrbridge/test/require"
)

// takenLog is a log that another member takes.
type takenLog struct {
	mu      sync.Mutex
	offset  uint64
	taken   bool
	refused chan struct{} // closed when a record was refused
}

func (l *takenLog) Append([]byte) (checkpoint.Point, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken {
		select {
		case <-l.refused:
		default:
			close(l.refused)
		}
		return checkpoint.Point{}, checkpoint.ErrNotOwner
	}
	l.offset++
	return checkpoint.Point{Offset: l.offset}, nil
}

func (l *takenLog) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = true
}

func TestAStateThatFailsAfterThePipelineHasStoppedIsReported(t *testing.T) {
	config, err := configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
cluster: {name: test, member: a, shards: 1, nats: {url: "nats://127.0.0.1:1"}}
appliances: [{name: hq, url: "http://127.0.0.1:1", api_key: k}]
sinks: [{name: log, file: {path: "-"}}]
`, filepath.Join(t.TempDir(), "state.db")), nil)
	require.NoError(t, err)
	replica, err := checkpoint.OpenReplica(config.Shard(0).State, 0)
	if err == nil {
		err = replica.Close()
	}
	require.NoError(t, err)
	log := &takenLog{refused: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newShards(pipeline.Options{
		Version: "test", Log: slog.New(slog.DiscardHandler), Stdout: io.Discard, Registerer: prometheus.NewRegistry(),
	}, func(int, *pipeline.Pipeline) (stop func(), err error) {
		cancel()
		return func() { // the pipeline has stopped, its state is still open
			log.lose()
			<-log.refused
		}, nil
	})
	s.config.Store(config)
	clock := lease.System()
	term := lease.New(time.Hour, clock)
	term.Renew(clock.Now())
	err = s.own(ctx, cluster.Ownership{
		Log: log, Renew: time.Millisecond, Lease: term, Snapshots: func(context.Context, replicated.Dumper) {},
	})
	if !errors.Is(err, checkpoint.ErrNotOwner) {
		t.Errorf("got %v, want ErrNotOwner", err)
	}
}

func TestShardsHaveStoppedBeforeTheConnectionIsCut(t *testing.T) {
	for _, shutdown := range []time.Duration{2 * time.Second, 5 * time.Second, 20 * time.Second, time.Hour} {
		config := &configs.Config{ShutdownTimeout: configs.Duration(shutdown)}
		if stop, cut := pipeline.StopLimit(stopTimeout(config)), cutAfter(config); stop > cut || stopTimeout(config) < shutdown/4 {
			t.Errorf("of %s they may take %s; the connection is cut after %s", shutdown, stop, cut)
		}
	}
}
