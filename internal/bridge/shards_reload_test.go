//go:build unix

package bridge

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
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

// hanging is a file whose reader hangs, as on a share that is gone.
type hanging struct{ path string }

func newHanging(t *testing.T) hanging {
	h := hanging{filepath.Join(t.TempDir(), "ca.pem")}
	require.NoError(t, syscall.Mkfifo(h.path, 0o600))
	return h
}

// awaitReader waits until the file is being read. The reader hangs until release is called.
func (h hanging) awaitReader(t *testing.T) (release func()) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if file, err := os.OpenFile(h.path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			return func() {
				os.Remove(h.path) // it may be read twice
				file.Close()
			}
		}
	}
	t.Fatal("nothing reads the file")
	return nil
}

// shardConfigs returns a function that parses configurations that differ in the name of the sink
// and in the certificates for the appliance.
func shardConfigs(t *testing.T) func(sink, caFile string) *configs.Config {
	state := filepath.Join(t.TempDir(), "state.db")
	return func(sink, caFile string) *configs.Config {
		t.Helper()
		config, err := configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
shutdown_timeout: 2s
cluster: {name: test, member: a, shards: 1, nats: {url: "nats://127.0.0.1:1"}}
appliances: [{name: hq, url: "https://127.0.0.1:1", api_key: k}]
sinks: [{name: %s, file: {path: "-"}}]
`, state, sink), nil)
		require.NoError(t, err)
		config.Appliances[0].TLS.CAFile = caFile // Parse would read it
		return config
	}
}

// ownShard has a member with a configuration own shard 0 until ctx is cancelled. served is called
// when the shard's pipeline is open.
func ownShard(t *testing.T, ctx context.Context, config *configs.Config, served func(*shards, *pipeline.Pipeline)) <-chan error {
	t.Helper()
	replica, err := checkpoint.OpenReplica(config.Shard(0).State, 0)
	require.NoError(t, err)
	require.NoError(t, replica.Close())
	var s *shards
	s = newShards(pipeline.Options{
		Version: "test", Log: slog.New(slog.DiscardHandler), Stdout: io.Discard, Registerer: prometheus.NewRegistry(),
	}, func(_ int, p *pipeline.Pipeline) (stop func(), err error) {
		served(s, p)
		return func() {}, nil
	})
	s.config.Store(config)
	clock := lease.System()
	term := lease.New(time.Hour, clock)
	term.Renew(clock.Now())
	owned := make(chan error, 1)
	go func() {
		owned <- s.own(ctx, cluster.Ownership{
			Log: &takenLog{refused: make(chan struct{})}, Renew: time.Hour, Lease: term, Snapshots: func(context.Context, replicated.Dumper) {},
		})
	}()
	return owned
}

func TestAShardEndsWhileItsReloadHangs(t *testing.T) {
	file, parse := newHanging(t), shardConfigs(t)
	next := parse("log", file.path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	owned := ownShard(t, ctx, parse("log", ""), func(s *shards, _ *pipeline.Pipeline) { s.config.Store(next) })
	release := file.awaitReader(t)
	defer release()
	cancel()
	select {
	case err := <-owned:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the shard does not end")
	}
}

func TestAReloadThatWaitedAppliesTheLastConfiguration(t *testing.T) {
	file, parse := newHanging(t), shardConfigs(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type served struct {
		*shards
		*pipeline.Pipeline
	}
	open := make(chan served, 1)
	owned := ownShard(t, ctx, parse("first", ""), func(s *shards, p *pipeline.Pipeline) { open <- served{s, p} })
	s := <-open
	hangs, hung := parse("hanging", file.path), make(chan struct{})
	go func() {
		defer close(hung)
		_, _ = s.shards.reload(ctx, hangs) // the file is removed
	}()
	release := file.awaitReader(t)
	s.shards.config.Store(parse("second", ""))
	reloaded := make(chan error, 1)
	go func() {
		_, err := s.reloadShard(ctx, 0, s.Pipeline)
		reloaded <- err
	}()
	time.Sleep(50 * time.Millisecond) // it waits
	s.shards.config.Store(parse("third", ""))
	release()
	<-hung
	if err := <-reloaded; err != nil {
		t.Error(err)
	}
	if got := s.Config().Sinks[0].Name; got != "third" {
		t.Errorf("the shard has the %s configuration, want the third", got)
	}
	cancel()
	if err := <-owned; err != nil {
		t.Error(err)
	}
}
