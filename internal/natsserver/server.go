// Package natsserver runs the NATS server of a member whose cluster has no NATS servers of its
// own. The servers of the members form a cluster of theirs, in which JetStream stores each stream
// on several of them, and syncs each write to disk.
//
// A server listens at one port, for those of the other members; both ends prove by a certificate
// that they belong to the cluster. Clients connect in the process, or through a socket in the
// folder of the server, and have the rights of a member, replicated.Rights.
package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/configs"
)

const (
	restartAfter = 5 * time.Second // after a failure
	checkEvery   = time.Second     // whether JetStream has stopped
)

// Server is the NATS server of a member. It is started again until it is closed: its port may
// be in use for a while, and JetStream stops, or stores less, when it cannot write. It is safe for concurrent use.
type Server struct {
	cluster *configs.Cluster
	log     *slog.Logger
	change  func(*server.Options) // applied before each start; nil: none
	state   atomic.Pointer[state]
	end     context.CancelFunc
	ended   chan struct{}
}

// state is a server that runs, or why none does.
type state struct {
	running *server.Server
	err     error
}

// Start starts the server of a cluster whose configuration has NATS.Embedded. It does not wait:
// Ready reports when the servers can be used.
func Start(c *configs.Cluster, log *slog.Logger) *Server { return start(c, log, nil) }

func start(c *configs.Cluster, log *slog.Logger, change func(*server.Options)) *Server {
	ctx, end := context.WithCancel(context.Background())
	s := &Server{cluster: c, log: log, change: change, end: end, ended: make(chan struct{})}
	s.state.Store(&state{err: errors.New("the embedded NATS server is being started")})
	go s.keepRunning(ctx)
	return s
}

// Close stops the server, whose clients must not need it any more. It returns an error if that
// takes longer than until ctx is done; the server continues to stop then.
func (s *Server) Close(ctx context.Context) error {
	s.end()
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return errors.New("the embedded NATS server did not stop in time")
	}
}

// Dial connects to the server in this process.
func (s *Server) Dial(context.Context) (net.Conn, error) {
	now := s.state.Load()
	if now.err != nil {
		return nil, now.err
	}
	return now.running.InProcessConn()
}

// Ready returns nil if this server and most of the others are connected and have elected a
// leader, and otherwise an error that says what they wait for.
func (s *Server) Ready() error {
	now := s.state.Load()
	if now.err != nil {
		return now.err
	}
	info, err := now.running.Jsz(nil)
	if err == nil && info.Meta != nil && info.Meta.Leader != "" && now.running.JetStreamIsCurrent() {
		return nil
	}
	others := "none of the others"
	if names := connected(now.running); len(names) > 0 {
		others = strings.Join(names, " and ")
	}
	return fmt.Errorf("the embedded NATS servers have no leader: most of the %d in cluster.nats.embedded.peers must be connected, and all of them the first time; this one is connected to %s",
		len(s.cluster.NATS.Embedded.Peers), others)
}

// connected returns the names of the members whose servers are connected to s.
func connected(s *server.Server) (names []string) {
	if routes, err := s.Routez(nil); err == nil {
		for _, r := range routes.Routes {
			names = append(names, r.RemoteName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keepRunning runs servers, one after the other, until ctx is done.
func (s *Server) keepRunning(ctx context.Context) {
	defer close(s.ended)
	last := ""
	for ctx.Err() == nil {
		err := s.run(ctx)
		if err.Error() != last && ctx.Err() == nil {
			last = err.Error()
			s.log.Error("the embedded NATS server does not run; it is started again", "error", err)
		}
		s.state.Store(&state{err: err})
		select {
		case <-time.After(restartAfter):
		case <-ctx.Done():
		}
	}
}

// run runs a server until ctx is done or the server fails. It returns why it does not run.
func (s *Server) run(ctx context.Context) error {
	o, err := s.options()
	if err != nil {
		return err
	}
	running, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("start the embedded NATS server: %w", err)
	}
	log := &logger{log: s.log, fatal: make(chan error, 1)}
	running.SetLoggerV2(log, false, false, false)
	defer running.Shutdown()
	running.Start() // it reads the streams
	for running.ClusterAddr() == nil && ctx.Err() == nil {
		select {
		case err := <-log.fatal:
			return fmt.Errorf("start the embedded NATS server: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	defer s.serveSocket(running)()
	s.state.Store(&state{running: running})
	for running.JetStreamEnabled() && !log.failed.Load() {
		select {
		case <-ctx.Done():
			return errors.New("the embedded NATS server was stopped")
		case <-time.After(checkEvery):
		}
	}
	return fmt.Errorf("JetStream of the embedded NATS server stopped, since it cannot write to %s: see whether the disk is full", o.StoreDir)
}
