//go:build unix

package bridge

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
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
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// takenLog is a log that another member takes.
type takenLog struct {
	first func() // called before the first record is appended

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
	if l.offset == 0 && l.first != nil {
		l.first()
	}
	l.offset++
	return checkpoint.Point{Offset: l.offset}, nil
}

func (l *takenLog) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = true
}

// memberConfigs returns a function that parses configurations that differ in the name of the sink
// and in the certificates for the appliance.
func memberConfigs(t *testing.T) func(sink, caFile string) *configs.Config {
	state := filepath.Join(t.TempDir(), "state.db")
	return func(sink, caFile string) *configs.Config {
		t.Helper()
		config, err := configs.Parse("ndrbridge.yaml", fmt.Appendf(nil, `
state: %s
shutdown_timeout: 2s
cluster: {name: test, member: a, nats: {url: "nats://127.0.0.1:1"}}
appliances: [{name: hq, url: "https://127.0.0.1:1", api_key: k}]
sinks: [{name: %s, file: {path: "-"}}]
`, state, sink), nil)
		require.NoError(t, err)
		config.Appliances[0].TLS.CAFile = caFile // Parse would read it
		return config
	}
}

// owner is a member that owns a log until ctx is cancelled.
func owner(t *testing.T, ctx context.Context, config *configs.Config, o cluster.Ownership) (*member, <-chan error) {
	t.Helper()
	replica := require.Value(checkpoint.OpenReplica(config.State, 0))(t)
	require.NoError(t, replica.Close())
	m := newMember(pipeline.Options{
		Version: "test", Log: slog.New(slog.DiscardHandler), Stdout: io.Discard, Registerer: prometheus.NewRegistry(),
	}, nil, nil)
	m.config.Store(config)
	clock := lease.System()
	o.Lease = lease.New(time.Hour, clock)
	o.Lease.Renew(clock.Now())
	owned := make(chan error, 1)
	go func() { owned <- m.own(ctx, o) }()
	return m, owned
}

func noSnapshots(context.Context, replicated.Dumper) {}

func TestAStateThatFailsWhileThePipelineStopsIsReported(t *testing.T) {
	log := &takenLog{refused: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, owned := owner(t, ctx, memberConfigs(t)("log", ""), cluster.Ownership{
		Log: log, Renew: time.Millisecond, Snapshots: func(ctx context.Context, _ replicated.Dumper) {
			cancel()
			<-ctx.Done() // the pipeline stops, its state is still open
			log.lose()
			<-log.refused
		},
	})
	assert.ErrorIs(t, <-owned, checkpoint.ErrNotOwner)
}

func TestAPipelineHasStoppedBeforeTheConnectionIsCut(t *testing.T) {
	for _, shutdown := range []time.Duration{2 * time.Second, 5 * time.Second, 20 * time.Second, time.Hour} {
		config := &configs.Config{ShutdownTimeout: configs.Duration(shutdown)}
		stop, cut := pipeline.StopLimit(stopTimeout(config)), cutAfter(config)
		assert.True(t, stop <= cut && stopTimeout(config) >= shutdown/4, shutdown, "it may take", stop, "the connection is cut after", cut)
	}
}

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

func TestAnOwnerEndsWhileItsReloadHangs(t *testing.T) {
	file, parse := newHanging(t), memberConfigs(t)
	next := parse("log", file.path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opening, reloaded := make(chan struct{}), make(chan struct{})
	log := &takenLog{refused: make(chan struct{}), first: func() {
		close(opening)
		<-reloaded
	}}
	m, owned := owner(t, ctx, parse("log", ""), cluster.Ownership{Log: log, Renew: time.Hour, Snapshots: noSnapshots})
	<-opening
	m.config.Store(next) // a reload that does not find the pipeline open
	close(reloaded)
	release := file.awaitReader(t)
	defer release()
	cancel()
	select {
	case err := <-owned:
		assert.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Error("the owner does not end")
	}
}

func TestAReloadThatWaitedAppliesTheLastConfiguration(t *testing.T) {
	file, parse := newHanging(t), memberConfigs(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &takenLog{refused: make(chan struct{})}
	running := make(chan struct{})
	m, owned := owner(t, ctx, parse("first", ""), cluster.Ownership{Log: log, Renew: time.Hour, Snapshots: func(context.Context, replicated.Dumper) { close(running) }})
	<-running
	p := m.pipeline()
	m.config.Store(parse("hanging", file.path))
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		_, _ = m.reloadOwned(ctx, p) // the file is removed
	}()
	release := file.awaitReader(t)
	m.config.Store(parse("second", ""))
	reloaded := make(chan error, 1)
	go func() {
		_, err := m.reloadOwned(ctx, p)
		reloaded <- err
	}()
	time.Sleep(50 * time.Millisecond) // it waits
	m.config.Store(parse("third", ""))
	release()
	<-hung
	assert.NoError(t, <-reloaded)
	assert.Equal(t, p.Config().Sinks[0].Name, "third", "the configuration of the pipeline")
	cancel()
	assert.NoError(t, <-owned)
}
