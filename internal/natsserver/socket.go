package natsserver

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/configs"
)

const acceptAgain = 100 * time.Millisecond // after an error

// socket returns the path of the socket at which commands connect.
func socket(e *configs.Embedded) string { return filepath.Join(e.Folder, "member.sock") }

// DialMember returns a function that connects to the server of the member on this machine, which
// may be another process.
func DialMember(e *configs.Embedded) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket(e))
	}
}

// serveSocket connects commands to a server, until stop ends both.
func (s *Server) serveSocket(running *server.Server) (stop func()) {
	path := socket(s.cluster.NATS.Embedded)
	os.Remove(path) // that of a process that was killed
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		s.log.Warn("commands of this machine cannot reach the embedded NATS server; if the path is too long, choose a shorter cluster.nats.embedded.folder", "error", err)
	}
	if l == nil {
		return func() {}
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			outside, err := l.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil: // too many files are open
				time.Sleep(acceptAgain)
			default:
				serving.Go(func() { forward(outside, running) })
			}
		}
	})
	return func() {
		l.Close()
		running.Shutdown() // ends the connections
		serving.Wait()
	}
}

// forward connects a client to a server until one of them ends.
func forward(outside net.Conn, running *server.Server) {
	defer outside.Close()
	inside, err := running.InProcessConn()
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(inside, outside)
		inside.Close()
	}()
	_, _ = io.Copy(outside, inside)
}
