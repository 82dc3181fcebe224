package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/natsserver"
	"ndrbridge/internal/pipeline"
	"ndrbridge/internal/pipeline/endpoint"
)

// closeTimeout is how long a pipeline may take to close if the process goes on.
const closeTimeout = 10 * time.Second

// member is the work of a member of a cluster: the pipeline, while it owns the log.
//
//	opened ── Run ──► connecting ── NATS is reached ──► joined ── ctx is done ──► handing over
type member struct {
	options pipeline.Options                                        // of each pipeline
	probe   func(ctx context.Context, config *configs.Config) error // see Options.Probe
	change  func(*cluster.Options)                                  // applied before the node is made; nil: none
	metrics *cluster.Metrics
	config  atomic.Pointer[configs.Config]
	hash    atomic.Pointer[string]        // of config: each renewal and each scrape of metrics asks for it
	tickets atomic.Pointer[admin.Tickets] // of a standby: it verifies the senders of webhooks

	mu         sync.Mutex
	server     *natsserver.Server // that the member runs; nil: none
	connection *clusterConnection // nil until NATS is reached
	waiting    error              // why it is not
	owned      *pipeline.Pipeline // nil: this member does not own the log
	left       []string           // parts of pipelines that did not stop in time

	err error // of Run
}

// newMember returns the work of a member. o has what all pipelines have in common.
func newMember(o pipeline.Options, probe func(context.Context, *configs.Config) error, change func(*cluster.Options)) *member {
	m := &member{
		options: o, probe: probe, change: change, metrics: cluster.NewMetrics(o.Registerer),
		waiting: errors.New("the connection is being established"),
	}
	m.tickets.Store(&admin.Tickets{})
	return m
}

// Try implements work.
func (m *member) Try(ctx context.Context, config *configs.Config) []error {
	var failed []error
	if err := endpoint.CheckCluster(config.Cluster); err != nil {
		failed = append(failed, &pipeline.PartError{Part: "cluster", Err: err})
	}
	trial := pipeline.New(pipeline.Options{
		Version: m.options.Version, Log: slog.New(slog.DiscardHandler), Stdout: io.Discard, Registerer: prometheus.NewRegistry(),
	})
	return append(failed, trial.Try(ctx, config)...)
}

// Open implements work. It opens no state: Run does when the member owns the log.
func (m *member) Open(ctx context.Context, config *configs.Config) error {
	if err := errors.Join(m.Try(ctx, config)...); err != nil {
		return err
	}
	if f := pipeline.CheckStatePath(config.State); f.Result == finding.Failed {
		return &pipeline.PartError{Part: f.Step, Err: &failure.Advised{Err: errors.New(f.Detail), To: f.Advice}}
	}
	m.use(config)
	return nil
}

// Run implements work. It connects, joins the cluster, and owns or follows the log until ctx is
// cancelled; an owner then hands it over.
func (m *member) Run(ctx context.Context, running func(attributes ...any)) *pipeline.Stop {
	done := make(chan error, 1)
	go func() { done <- m.run(ctx, running) }()
	select {
	case err := <-done:
		m.err = err
		return pipeline.NewStop(closeTimeout)
	case <-ctx.Done():
		config := m.Config()
		stopped := pipeline.NewStop(time.Duration(config.ShutdownTimeout))
		// Whatever waits for NATS gives up before the end.
		cut := time.AfterFunc(cutAfter(config), m.cut)
		defer cut.Stop()
		late := time.NewTimer(stopped.Timeout)
		defer late.Stop()
		select {
		case err := <-done:
			m.err = err
		case <-late.C:
			stopped.Left = []string{"the membership in the cluster"}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		stopped.Left = append(stopped.Left, m.left...)
		return stopped
	}
}

func (m *member) run(ctx context.Context, running func(attributes ...any)) error {
	c, err := m.join(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	config := m.Config().Cluster
	stop, err := c.peers.Serve(ctx, c.node)
	if err != nil {
		return err
	}
	defer stop()
	running("cluster", config.Name, "member", config.Member)
	c.node.Run(ctx)
	return nil
}

// own runs the pipeline until ctx is cancelled, which stops it cleanly within shutdown_timeout, or
// until its state fails. When own returns, everything has stopped and the state is closed,
// unless the error names parts that were abandoned; these can no longer send anything either.
func (m *member) own(ctx context.Context, o cluster.Ownership) error {
	config := m.Config()
	options := m.options
	options.Ownership = &o
	p, stopped := pipeline.New(options), new(pipeline.Stop)
	m.setOwned(p, nil)
	defer func() { m.setOwned(nil, stopped.Left) }()

	err := p.Open(ctx, ownConfig(config))
	if err == nil {
		stopped, err = m.runOwned(ctx, p, config)
	}
	if err != nil || len(stopped.Left) > 0 {
		o.Lease.End() // nothing that is left may send, and the log must give up
	}
	if ctx.Err() == nil || stopped.Timeout == 0 { // the process goes on
		left := stopped.Left
		stopped = pipeline.NewStop(closeTimeout)
		stopped.Left = left
	}
	p.Close(stopped)
	if err == nil {
		err = p.Err() // the state may have failed after runOwned
	}
	err = errors.Join(err, stopped.Err)
	if len(stopped.Left) > 0 {
		err = errors.Join(err, fmt.Errorf("these did not stop in time and were abandoned: %s", strings.Join(stopped.Left, ", ")))
	}
	return err
}

// setOwned sets the pipeline of the log that this member owns, and adds parts that were left.
func (m *member) setOwned(p *pipeline.Pipeline, left []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned, m.left = p, append(m.left, left...)
}

// runOwned runs an open pipeline that was made with config. It returns the error of its state.
func (m *member) runOwned(ctx context.Context, p *pipeline.Pipeline, config *configs.Config) (*pipeline.Stop, error) {
	if m.Config() != config { // a reload did not find it open
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { // runOwned does not wait for it: a file may be on a share that is gone
			if _, err := m.reloadOwned(ctx, p); err != nil && ctx.Err() == nil {
				m.options.Log.Error("the owner continues with the configuration before the last reload; restart the bridge", "error", err)
			}
		}()
	}
	stopped := p.Run(ctx, func(attributes ...any) { m.options.Log.Info("running as the owner", attributes...) })
	return stopped, p.Err()
}

// ownConfig returns the configuration of a pipeline: it has to stop earlier than the process,
// which then hands the log over.
func ownConfig(config *configs.Config) *configs.Config {
	c := *config
	c.ShutdownTimeout = configs.Duration(stopTimeout(config))
	return &c
}

// stopTimeout returns how long the pipeline may take to stop: 3/4 of shutdown_timeout, or less if
// that is so short that the pipeline, which then has a grace, might still be closing when the
// connection to NATS is cut. The rest is for handing the log over.
func stopTimeout(config *configs.Config) time.Duration {
	timeout := time.Duration(config.ShutdownTimeout)
	return min(timeout*3/4, max(timeout/4, cutAfter(config)-pipeline.StopLimit(0)))
}

// cutAfter returns how long after the signal the connection to NATS is cut.
func cutAfter(config *configs.Config) time.Duration {
	return time.Duration(config.ShutdownTimeout) * 9 / 10
}

// Close implements work.
func (m *member) Close(s *pipeline.Stop) {
	s.Close("the connection to NATS", func() error {
		if c := m.membership(); c != nil {
			c.close()
		}
		return nil
	})
	m.mu.Lock()
	server := m.server
	m.mu.Unlock()
	if server != nil {
		s.Close("the NATS server", func() error { return server.Close(context.Background()) })
	}
}

// cut closes the connection to NATS, even if the library waits for a server.
func (m *member) cut() {
	if c := m.membership(); c != nil {
		c.conn.Cut()
		c.close()
	}
}

// Config implements work.
func (m *member) Config() *configs.Config { return m.config.Load() }

// Err implements work. Run must have returned.
func (m *member) Err() error { return m.err }

// NotReady implements work. A standby is ready while it could take the log.
func (m *member) NotReady() []string {
	m.mu.Lock()
	c, waiting, owned := m.connection, m.waiting, m.owned
	m.mu.Unlock()
	if c == nil {
		return []string{fmt.Sprintf("the cluster in NATS is not reached: %s", waiting)}
	}
	reasons := c.node.NotReady()
	if owned != nil {
		reasons = append(reasons, owned.NotReady()...)
	}
	return reasons
}

// Reload implements work. The parts of the new configuration are tried first: an error
// then means that nothing was changed.
func (m *member) Reload(ctx context.Context, load func() *configs.Config) ([]string, error) {
	current, next := m.Config(), load()
	if err := errors.Join(m.Try(ctx, next)...); err != nil {
		return nil, err
	}
	m.use(next)
	var changes []string
	if p := m.pipeline(); p != nil {
		var err error
		if changes, err = m.reloadOwned(ctx, p); err != nil {
			return changes, err
		}
	}
	if len(changes) == 0 && !reflect.DeepEqual(current, next) {
		changes = []string{"the configuration changed, but nothing that this member runs"}
	}
	return changes, nil
}

// reloadOwned applies the current configuration to a pipeline.
func (m *member) reloadOwned(ctx context.Context, p *pipeline.Pipeline) ([]string, error) {
	changes, err := p.Reload(ctx, func() *configs.Config { return ownConfig(m.Config()) })
	if errors.Is(err, admin.ErrNotRunning) { // the next owner has the new configuration
		return nil, nil
	}
	return changes, err
}

// pipeline returns the pipeline of the log, or nil if this member does not own it or the state is
// still being opened.
func (m *member) pipeline() *pipeline.Pipeline {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owned != nil && m.owned.Control() != nil {
		return m.owned
	}
	return nil
}

// use makes a configuration that Try accepted the current one.
func (m *member) use(config *configs.Config) {
	var ofStandby admin.Tickets
	if config.Tickets.Enabled {
		// The error is that of a receiver, which Try would have returned.
		ofStandby.Webhooks, _ = config.Tickets.Webhooks.Receivers()
	}
	hash := config.Hash()
	m.tickets.Store(&ofStandby)
	m.hash.Store(&hash)
	m.config.Store(config)
}

// Tickets implements work.
func (m *member) Tickets() admin.Tickets {
	if p := m.pipeline(); p != nil {
		return p.Tickets()
	}
	return *m.tickets.Load()
}

// Control implements work. A standby has the operations that are not forwarded to the owner.
func (m *member) Control() *admin.Client {
	c := m.membership()
	if c == nil {
		return nil
	}
	if p := m.pipeline(); p != nil {
		return p.Control().With(c.operations)
	}
	return admin.NewLocal(c.operations)
}

// Owner is admin.Options.Owner.
func (m *member) Owner() (url string, self bool, why string) {
	c := m.membership()
	if c == nil {
		return "", false, "this member has not joined the cluster yet"
	}
	owner, self, _, ok := c.node.Owner()
	switch {
	case self && m.pipeline() != nil:
		return "", true, ""
	case self:
		return "", false, "this member has just become the owner, and opens the state"
	case !ok:
		return "", false, "no member owns the log at the moment"
	case owner.URL == "":
		return "", false, fmt.Sprintf("member %s owns the log, and has no admin.advertise: ask it, or set that key", owner.Member)
	}
	return owner.URL, false, ""
}

// illAfter is how long all appliances and sinks must fail before a member counts as ill.
const illAfter = time.Minute

// ill reports whether this member, the owner, has reached neither an appliance nor a sink for
// illAfter. A sink that writes a file says nothing about the network.
func (m *member) ill() bool {
	p := m.pipeline()
	if p == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	status, err := p.Control().Status(ctx)
	if err != nil {
		return false
	}
	long := func(since time.Time) bool { return time.Since(since) >= illAfter }
	for _, a := range status.Appliances {
		if a.Reachable == nil || *a.Reachable || !long(a.Since) {
			return false
		}
	}
	remote := 0
	for _, s := range status.Sinks {
		if s.Kind == "file" {
			continue
		}
		if remote++; s.Error == "" || !long(s.Since) {
			return false
		}
	}
	return remote > 0
}

// membership returns the connection to the cluster, or nil until there is one.
func (m *member) membership() *clusterConnection {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.connection
}
