package natswire

import (
	"context"

	nats "github.com/nats-io/nats.go"
)

// ConnectAgain connects as Connect does, but the connection reconnects whenever it is
// lost, to any of the servers, until it is cut or closed. Nothing is buffered while there
// is no connection: sending fails. Errors of authentication do not end it either, because
// servers report them while they are misconfigured or being restarted.
//
// Calls of the library, Close among them, wait while it tries to connect to a server that
// does not answer. Cut ends the attempt.
func ConnectAgain(ctx context.Context, o Options, options ...nats.Option) (*Conn, error) {
	// The connections that follow the first are not bound to ctx.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	servers, d, err := newDialer(life, o)
	if err != nil {
		end()
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		end()
		d.cut()
	})
	c, err := nats.Connect(servers, append(options,
		nats.Timeout(o.Timeout), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(),
		nats.IgnoreDiscoveredServers(), nats.SetCustomDialer(d), nats.SkipHostLookup(),
	)...)
	if !stop() && err == nil { // ctx was done meanwhile
		c.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, err
	}
	return &Conn{c, d, end}, nil
}
