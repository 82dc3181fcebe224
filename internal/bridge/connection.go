package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/cluster/operations"
	"ndrbridge/internal/natswire"
	"ndrbridge/internal/pipeline"
	"ndrbridge/internal/pipeline/endpoint"
)

// clusterConnection is a member's connection to its cluster. It implements operations.Shards.
type clusterConnection struct {
	*member
	name, id string // of the cluster
	self     string // name of this member
	conn     *natswire.Conn
	storage  *replicated.JetStream
	node     *cluster.Node
	remote   []*admin.Client // all shards, as other members have them
	control  *admin.Client   // of all shards
}

// close closes the connection. Nothing may use it any more.
func (c *clusterConnection) close() {
	c.storage.Close()
	c.conn.Close()
}

// join connects to NATS and opens the cluster's streams. It retries until it succeeds or ctx is
// done, because the servers may start, be repaired, or get the cluster later. NotReady and the
// log report the reason.
func (m *member) join(ctx context.Context) (*clusterConnection, error) {
	config := m.Config().Cluster
	c := &clusterConnection{member: m, name: config.Name, self: config.Member}
	err := m.retry(ctx, func() (err error) {
		c.conn, err = endpoint.ConnectCluster(ctx, config, m.options.Log)
		return err
	})
	if err != nil {
		return nil, err
	}
	hide := endpoint.HideCluster(config)
	err = m.retry(ctx, func() (err error) {
		c.storage, err = replicated.OpenJetStream(ctx, c.conn.Conn, replicated.JetStreamOptions{
			Name: config.Name, Shards: config.Shards, Replicas: config.Replicas, Hide: hide,
			Check: func(ctx context.Context, bucket jetstream.KeyValue) (err error) {
				c.id, err = cluster.Check(ctx, cluster.NewKV(bucket, nil), config.Name, config.Shards)
				return err
			},
		})
		return err
	})
	if err != nil {
		c.conn.Close()
		return nil, err
	}
	for _, warning := range c.storage.Warnings() {
		m.options.Log.Warn(warning)
	}
	o := cluster.Options{
		Name: config.Name, Member: config.Member, Shards: config.Shards, Term: time.Duration(config.Lease),
		Registry: cluster.NewKV(c.storage.Bucket(), hide),
		Storage: func(n int) cluster.Storage {
			return cluster.Storage{Stream: c.storage.Stream(n), Snapshots: c.storage.Snapshots(n)}
		},
		Path: func(n int) string { return m.Config().Shard(n).State },
		Own:  m.shards.own, StopTimeout: pipeline.StopLimit(stopTimeout(m.Config())),
		Version: m.options.Version, ConfigHash: func() string { return m.Config().Hash() },
		Appliances: func(n int) []string { return m.Config().Shard(n).ApplianceNames() },
		Log:        m.options.Log, Metrics: m.metrics,
	}
	if m.change != nil {
		m.change(&o)
	}
	c.node = cluster.New(o)
	for n := range config.Shards {
		c.remote = append(c.remote, operations.NewRemote(c.transport(c.shardSubject(n))))
	}
	c.control = operations.New(operations.Options{Shards: c, Config: m.Config, Version: m.options.Version, Started: m.options.Started, Log: m.options.Log})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connection, m.waiting = c, nil
	m.acceptTickets()
	return c, nil
}

// retry calls try until it succeeds, ctx is done, or this member does not fit the cluster. It
// logs each new error and keeps the last for NotReady.
func (m *member) retry(ctx context.Context, try func() error) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(0))
	last := ""
	for {
		err := try()
		if err == nil || ctx.Err() != nil || errors.Is(err, cluster.ErrSettings) {
			return err
		}
		m.mu.Lock()
		m.waiting = err
		m.mu.Unlock()
		if err.Error() != last {
			m.options.Log.Error("the cluster cannot be joined; it is tried again", "error", err)
			last = err.Error()
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
