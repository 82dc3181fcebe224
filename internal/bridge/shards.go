package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/pipeline"
)

// closeTimeout is how long a pipeline may take to close if the process goes on.
const closeTimeout = 10 * time.Second

// shards are the pipelines of the shards that a member owns.
type shards struct {
	// options are those of all pipelines. Each gets a Log, Registerer and Shard of its own.
	options pipeline.Options
	// serve makes the pipeline of a shard available to other members until stop is called.
	serve func(shard int, p *pipeline.Pipeline) (stop func(), err error)

	config atomic.Pointer[configs.Config] // of the process: that pipelines are made from

	mu    sync.Mutex
	owned map[int]*pipeline.Pipeline
	left  []string // parts of pipelines that did not stop in time
}

// newShards returns the pipelines of a member that owns no shard.
func newShards(options pipeline.Options, serve func(int, *pipeline.Pipeline) (func(), error)) *shards {
	return &shards{options: options, serve: serve, owned: make(map[int]*pipeline.Pipeline)}
}

// own runs the pipeline of a shard until ctx is cancelled, which stops it cleanly within
// shutdown_timeout, or until its state fails. When own returns, everything has stopped
// and the state is closed, unless the error names parts that were abandoned; these can no
// longer send anything either.
func (s *shards) own(ctx context.Context, o cluster.Ownership) error {
	config := s.config.Load()
	name := configs.ShardName(o.Shard)
	options := s.options
	options.Log = options.Log.With("shard", name)
	options.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"shard": name}, options.Registerer)
	options.Shard = &o
	p, stopped := pipeline.New(options), new(pipeline.Stop)
	s.mu.Lock()
	s.owned[o.Shard] = p
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.owned, o.Shard)
		for _, part := range stopped.Left {
			s.left = append(s.left, "shard "+name+": "+part)
		}
	}()

	err := p.Open(ctx, shardConfig(config, o.Shard))
	if err == nil {
		stopped, err = s.run(ctx, o.Shard, p, config)
	}
	if (err != nil || len(stopped.Left) > 0) && o.Lease != nil {
		o.Lease.End() // nothing that is left may send, and the log must give up
	}
	if ctx.Err() == nil || stopped.Timeout == 0 { // the process goes on
		left := stopped.Left
		stopped = pipeline.NewStop(closeTimeout)
		stopped.Left = left
	}
	p.Close(stopped)
	if err == nil {
		err = p.Err() // the state may have failed after run
	}
	err = errors.Join(err, stopped.Err)
	if len(stopped.Left) > 0 {
		err = errors.Join(err, fmt.Errorf("these did not stop in time and were abandoned: %s", strings.Join(stopped.Left, ", ")))
	}
	return err
}

// run runs an open pipeline that was made with config. It returns the error of its state.
func (s *shards) run(ctx context.Context, shard int, p *pipeline.Pipeline, config *configs.Config) (*pipeline.Stop, error) {
	stop, err := s.serve(shard, p)
	if err != nil {
		return new(pipeline.Stop), err
	}
	defer stop()
	if s.config.Load() != config { // a reload did not find it open
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { // run does not wait for it: a file may be on a share that is gone
			if _, err := s.reloadShard(ctx, shard, p); err != nil && ctx.Err() == nil {
				s.options.Log.Error("the shard continues with the configuration before the last reload; restart the bridge", "shard", configs.ShardName(shard), "error", err)
			}
		}()
	}
	stopped := p.Run(ctx, func(attributes ...any) {
		s.options.Log.Info("running the shard", append([]any{"shard", configs.ShardName(shard)}, attributes...)...)
	})
	return stopped, p.Err()
}

// reload applies a configuration to all pipelines. It returns a line for each change.
// The pipelines that are opened later have it from the beginning. An error names the
// shards that continue with their previous configuration.
func (s *shards) reload(ctx context.Context, next *configs.Config) ([]string, error) {
	s.config.Store(next)
	s.mu.Lock()
	owned := maps.Clone(s.owned)
	s.mu.Unlock()
	numbers := slices.Sorted(maps.Keys(owned))
	changes, errs := make([][]string, len(numbers)), make([]error, len(numbers))
	var reloads sync.WaitGroup
	for i, n := range numbers {
		if owned[n].Control() == nil {
			continue // run does it once it is open
		}
		reloads.Go(func() { changes[i], errs[i] = s.reloadShard(ctx, n, owned[n]) })
	}
	reloads.Wait()
	var all []string
	for _, line := range slices.Concat(changes...) { // most concern all shards
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all, errors.Join(errs...)
}

// reloadShard applies the current configuration to a pipeline.
func (s *shards) reloadShard(ctx context.Context, shard int, p *pipeline.Pipeline) ([]string, error) {
	changes, err := p.Reload(ctx, func() *configs.Config { return shardConfig(s.config.Load(), shard) })
	if errors.Is(err, admin.ErrNotRunning) { // its next owner has the new configuration
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("shard %s: %w", configs.ShardName(shard), err)
	}
	return changes, err
}

// notReady returns the reasons why shards are not ready.
func (s *shards) notReady() (reasons []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.owned)) {
		for _, reason := range s.owned[n].NotReady() {
			reasons = append(reasons, "shard "+configs.ShardName(n)+": "+reason)
		}
	}
	return reasons
}

// pipeline returns the pipeline of a shard, or nil if this member does not own it or its
// state is still being opened.
func (s *shards) pipeline(shard int) *pipeline.Pipeline {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.owned[shard]; p != nil && p.Control() != nil {
		return p
	}
	return nil
}

// shardConfig returns the configuration of a shard's pipeline.
func shardConfig(config *configs.Config, shard int) *configs.Config {
	c := config.Shard(shard) // a copy
	c.ShutdownTimeout = configs.Duration(stopTimeout(config))
	return c
}

// stopTimeout returns how long the pipeline of a shard may take to stop: 3/4 of
// shutdown_timeout, or less if that is so short that the shard, which then has a grace,
// might still be closing when the connection to NATS is cut. The rest is for handing the
// shard over.
func stopTimeout(config *configs.Config) time.Duration {
	timeout := time.Duration(config.ShutdownTimeout)
	return min(timeout*3/4, max(timeout/4, cutAfter(config)-pipeline.StopLimit(0)))
}

// cutAfter returns how long after the signal the connection to NATS is cut.
func cutAfter(config *configs.Config) time.Duration {
	return time.Duration(config.ShutdownTimeout) * 9 / 10
}
