package bridge

import (
	"context"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/natsserver"
	"ndrbridge/internal/natswire"
	"ndrbridge/internal/pipeline"
	"ndrbridge/internal/pipeline/endpoint"
)

// clusterConnection is a member's connection to its cluster.
type clusterConnection struct {
	conn       *natswire.Conn
	storage    *replicated.JetStream
	peers      cluster.Peers
	node       *cluster.Node
	operations admin.Operations // of the cluster, and a reload
}

// close closes the connection. Nothing may use it any more.
func (c *clusterConnection) close() {
	c.storage.Close()
	c.conn.Close()
}

// join connects to NATS. It retries until it succeeds or ctx is done, because the servers may start or
// be repaired later. NotReady and the log report the reason. The cluster need not exist: the node
// waits for it.
func (m *member) join(ctx context.Context) (*clusterConnection, error) {
	config := m.Config().Cluster
	c := new(clusterConnection)
	dial, err := m.startServer(ctx)
	if err != nil {
		return nil, err
	}
	err = m.retry(ctx, func() (err error) {
		c.conn, err = endpoint.ConnectCluster(ctx, config, dial, m.options.Log)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = m.retry(ctx, func() (err error) {
		c.storage, err = replicated.OpenJetStream(ctx, c.conn.Conn, storageOptions(config))
		return err
	})
	if err != nil {
		c.conn.Close()
		return nil, err
	}
	for _, warning := range c.storage.Warnings() {
		m.options.Log.Warn(warning)
	}
	c.peers = cluster.Peers{NC: c.conn.Conn, Name: config.Name, Hide: endpoint.HideCluster(config)}
	o := cluster.Options{
		Name: config.Name, Member: config.Member, Term: time.Duration(config.Lease), Path: m.Config().State,
		Registry: c.storage, Storage: openStorage(c.storage), Peers: c.peers.Ask,
		Own: m.own, StopTimeout: pipeline.StopLimit(stopTimeout(m.Config())),
		Version: m.options.Version, ConfigHash: func() string { return *m.hash.Load() }, URL: func() string { return m.Config().Advertise() },
		Log: m.options.Log, Metrics: m.metrics,
	}
	if a := config.Archive; a != nil {
		o.Archive = cluster.Archive{Folder: a.Folder, Every: time.Duration(a.Every), Keep: a.Keep}
	}
	if m.probe != nil {
		o.Ill, o.Probe = m.ill, func(ctx context.Context) error { return m.probe(ctx, m.Config()) }
	}
	if m.change != nil {
		m.change(&o)
	}
	c.node = cluster.New(o)
	c.operations = make(admin.Operations)
	admin.API.Reload.By(c.operations, func(ctx context.Context, _ admin.None) (admin.Reloaded, error) { return m.options.Reload(ctx) })
	admin.API.GetCluster.By(c.operations, func(ctx context.Context, _ admin.None) (admin.Cluster, error) { return c.node.Cluster(ctx), nil })
	admin.API.HandOver.By(c.operations, func(ctx context.Context, _ admin.None) error { return c.node.Handover(ctx) })
	admin.API.RecoverCluster.By(c.operations, func(ctx context.Context, what admin.Recovery) error { return c.peers.Recover(ctx, what.From) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connection, m.waiting = c, nil
	return c, nil
}

// startServer starts the NATS server of the member, if it runs one, and waits until the servers of
// the members can be used. dial connects to it; nil: the member connects to other servers.
func (m *member) startServer(ctx context.Context) (dial func(context.Context) (net.Conn, error), err error) {
	config := m.Config().Cluster
	if config.NATS.Embedded == nil {
		return nil, nil
	}
	server := natsserver.Start(config, m.options.Log)
	m.mu.Lock()
	m.server = server
	m.mu.Unlock()
	return server.Dial, m.retry(ctx, server.Ready)
}

// storageOptions returns the options to open what a cluster stores in NATS.
func storageOptions(config *configs.Cluster) replicated.JetStreamOptions {
	return replicated.JetStreamOptions{Name: config.Name, Replicas: config.Replicas, Hide: endpoint.HideCluster(config)}
}

// openStorage returns the function that opens a generation.
func openStorage(j *replicated.JetStream) cluster.OpenStorage {
	return func(ctx context.Context, generation uint64, create bool) (cluster.Storage, error) {
		stream, snapshots, err := j.Generation(ctx, generation, create)
		return cluster.Storage{Stream: stream, Snapshots: snapshots}, err
	}
}

// retry calls try until it succeeds or ctx is done. It logs each new error and keeps the last for
// NotReady.
func (m *member) retry(ctx context.Context, try func() error) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(0))
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
