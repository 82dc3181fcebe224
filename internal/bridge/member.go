package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/cluster/operations"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/pipeline"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/internal/tickets"
)

// member is the work of a member of a cluster: the pipelines of the shards that it owns.
//
//	opened ── Run ──► connecting ── NATS is reached ──► joined ── ctx is done ──► handing over
type member struct {
	options  pipeline.Options       // of all pipelines
	change   func(*cluster.Options) // applied before the node is made; nil: none
	shards   *shards
	received *tickets.AcceptorMetrics
	metrics  *cluster.Metrics

	mu         sync.Mutex
	connection *clusterConnection // nil until NATS is reached
	waiting    error              // why it is not
	tickets    admin.Tickets

	err error // of Run
}

// newMember returns the work of a member. o has what all pipelines have in common.
func newMember(o pipeline.Options, change func(*cluster.Options)) *member {
	m := &member{
		options: o, change: change,
		waiting: errors.New("the connection is being established"),
		metrics: cluster.NewMetrics(o.Registerer),
		// The pipelines have the same metrics with a shard.
		received: tickets.NewAcceptorMetrics(prometheus.WrapRegistererWith(prometheus.Labels{"shard": ""}, o.Registerer)),
	}
	o.Tickets = m.Tickets
	m.shards = newShards(o, m.serve)
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
	whole := config.Shard(0) // it has everything that only one shard has
	whole.Appliances = config.Appliances
	return append(failed, trial.Try(ctx, whole)...)
}

// Open implements work. It opens no state: Run does when the member owns a shard.
func (m *member) Open(ctx context.Context, config *configs.Config) error {
	if err := errors.Join(m.Try(ctx, config)...); err != nil {
		return err
	}
	for n := range config.Cluster.Shards {
		if f := pipeline.CheckStatePath(config.Shard(n).State); f.Result == finding.Failed {
			return &pipeline.PartError{Part: f.Step, Err: &failure.Advised{Err: errors.New(f.Detail), To: f.Advice}}
		}
	}
	m.shards.config.Store(config)
	return nil
}

// Run implements work. It connects, joins the cluster and owns shards until ctx is
// cancelled, then hands them over. It ends early with an error if this member
// does not fit the cluster.
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
		m.shards.mu.Lock()
		defer m.shards.mu.Unlock()
		stopped.Left = append(stopped.Left, m.shards.left...)
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
	stop, err := c.answer(c.memberSubject(c.self), c.handler())
	if err != nil {
		return err
	}
	defer stop()
	config := m.Config().Cluster
	running("cluster", config.Name, "member", config.Member, "shards", config.Shards)
	return c.node.Run(ctx, c.id)
}

// Close implements work.
func (m *member) Close(s *pipeline.Stop) {
	s.Close("the connection to NATS", func() error {
		if c := m.membership(); c != nil {
			c.close()
		}
		return nil
	})
}

// cut closes the connection to NATS, even if the library waits for a server.
func (m *member) cut() {
	if c := m.membership(); c != nil {
		c.conn.Cut()
		c.close()
	}
}

// Config implements work.
func (m *member) Config() *configs.Config { return m.shards.config.Load() }

// Err implements work. Run must have returned.
func (m *member) Err() error { return m.err }

// NotReady implements work. A member that owns no shard is ready once it has joined and while
// JetStream answers.
func (m *member) NotReady() []string {
	m.mu.Lock()
	c, waiting := m.connection, m.waiting
	m.mu.Unlock()
	if c == nil {
		return []string{fmt.Sprintf("the cluster in NATS is not reached: %s", waiting)}
	}
	return append(c.node.NotReady(), m.shards.notReady()...)
}

// Reload implements work. The parts of the new configuration are tried first: an error
// then means that nothing was changed. An error of a shard says so; the others have the
// new configuration.
func (m *member) Reload(ctx context.Context, load func() *configs.Config) ([]string, error) {
	current, next := m.Config(), load()
	if err := errors.Join(m.Try(ctx, next)...); err != nil {
		return nil, err
	}
	changes, err := m.shards.reload(ctx, next)
	m.mu.Lock()
	m.acceptTickets()
	m.mu.Unlock()
	if len(changes) == 0 && err == nil && !reflect.DeepEqual(current, next) {
		changes = []string{"the configuration changed, but nothing that this member runs"}
	}
	return changes, err
}

// acceptTickets makes what accepts ticket commands with the current configuration, which
// was tried. mu must be held.
func (m *member) acceptTickets() {
	config := m.Config()
	m.tickets = admin.Tickets{}
	if !config.Tickets.Enabled || m.connection == nil {
		return
	}
	receivers, _ := config.Tickets.Webhooks.Receivers() // Try returned its error
	m.tickets = admin.Tickets{Webhooks: receivers, Acceptor: operations.NewAcceptor(m.connection, tickets.AcceptorOptions{
		Appliances: config.ApplianceNames(), Now: time.Now, Metrics: m.received,
	})}
}

// Tickets implements work.
func (m *member) Tickets() admin.Tickets {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tickets
}

// serve answers the requests of other members to a shard that this member owns until stop
// is called.
func (m *member) serve(shard int, p *pipeline.Pipeline) (stop func(), err error) {
	c := m.membership()
	return c.answer(c.shardSubject(shard), operations.NewHandler(p.Control))
}

// Control implements work.
func (m *member) Control() *admin.Client {
	if c := m.membership(); c != nil {
		return c.ofAll()
	}
	return nil
}

// membership returns the connection to the cluster, or nil until there is one.
func (m *member) membership() *clusterConnection {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.connection
}
