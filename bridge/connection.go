package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/cluster"
	"ndrbridge/cluster/operations"
	"ndrbridge/configs"
	"ndrbridge/pipeline/endpoint"
	"ndrbridge/pipeline/lifecycle"
)

// clusterConnection is a member's connection to its cluster. It implements operations.Shards.
type clusterConnection struct {
	name, member string // of the cluster, and of this member
	log          *slog.Logger
	reload       reload
	shards       *shards
	conn         *nats.Conn
	storage      *replicated.JetStream
	node         *cluster.Node
	remote       []operations.Shard // all shards, as other members have them
	control      *operations.Control
}

// close closes the connection. Nothing may use it any more.
func (j *clusterConnection) close() {
	_ = j.storage.Close() // the connection is closed next
	j.conn.Close()
}

// join connects to NATS and opens the cluster's streams. It retries until it has or ctx
// is done, because the servers may start later, or be repaired: NotReady and the log say
// what is wrong.
func (m *member) join(ctx context.Context) (*clusterConnection, error) {
	c := m.Config().Cluster
	j := &clusterConnection{name: c.Name, member: c.Member, log: m.log, reload: m.process, shards: m.shards}
	err := m.retry(ctx, func() (err error) {
		j.conn, err = endpoint.ConnectCluster(ctx, c, m.log)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = m.retry(ctx, func() (err error) {
		j.storage, err = replicated.OpenJetStream(ctx, j.conn, replicated.JetStreamOptions{Name: c.Name, Shards: c.Shards, Replicas: c.Replicas})
		return err
	})
	if err != nil {
		j.conn.Close()
		return nil, err
	}
	for _, warning := range j.storage.Warnings() {
		m.log.Warn(warning)
	}
	o := cluster.Options{
		Name: c.Name, Member: c.Member, Shards: c.Shards, Term: time.Duration(c.Lease),
		Registry: cluster.NewKV(j.storage.Bucket()),
		Storage: func(n int) cluster.Storage {
			return cluster.Storage{Stream: j.storage.Stream(n), Snapshots: j.storage.Snapshots(n)}
		},
		Path: func(n int) string { return m.Config().Shard(n).State },
		Own:  m.shards.own, StopTimeout: lifecycle.Limit(stopTimeout(m.Config())),
		Version: m.version, ConfigHash: func() string { return m.Config().Hash() },
		Appliances: func(n int) []string { return applianceNames(m.Config().Shard(n)) },
		Log:        m.log, Metrics: m.metrics,
	}
	if m.change != nil {
		m.change(&o)
	}
	j.node = cluster.New(o)
	for n := range c.Shards {
		j.remote = append(j.remote, operations.NewRemote(j.transport(j.shardSubject(n))))
	}
	j.control = operations.New(operations.Options{Shards: j, Config: m.Config, Version: m.version, Started: m.started, Log: m.log})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connection, m.waiting = j, nil
	m.acceptTickets()
	return j, nil
}

// retry calls try until it succeeds or ctx is done. It notes and logs the errors.
func (m *member) retry(ctx context.Context, try func() error) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
	last := ""
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return err
		}
		m.mu.Lock()
		m.waiting = err
		m.mu.Unlock()
		if err.Error() != last {
			m.log.Error("the cluster cannot be joined; it is tried again", "error", err)
			last = err.Error()
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func applianceNames(config *configs.Config) (names []string) {
	for _, a := range config.Appliances {
		names = append(names, a.Name)
	}
	return names
}
