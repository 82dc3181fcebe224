package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"ndrbridge/configs"
	"ndrbridge/internal/natsserver"
	"ndrbridge/internal/natswire"
	"ndrbridge/internal/redact"
	natssink "ndrbridge/sinks/nats"
)

// maxClusterMessage bounds a message of a cluster with its headers, in bytes: a part of a
// record is at most half of it.
const maxClusterMessage = 1<<20 + 64<<10

// CheckCluster returns why ConnectCluster would fail before it contacts a server.
func CheckCluster(c *configs.Cluster) error {
	if c.NATS.Embedded != nil {
		return natsserver.Check(c)
	}
	o, err := NATS(c.NATS.Connection())
	if err == nil {
		_, err = o.SignIn()
	}
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

// HideCluster returns a function that removes the secrets of a cluster's connection from an
// error of its servers, which may repeat them. The function reads the secrets again each time, and
// uses the previous ones if that fails. It may be called concurrently.
func HideCluster(c *configs.Cluster) func(error) error {
	var previous atomic.Pointer[redact.Secrets]
	read := func() redact.Secrets {
		o, err := NATS(c.NATS.Connection())
		if err == nil {
			secrets := o.Secrets()
			previous.Store(&secrets)
		}
		return *cmp.Or(previous.Load(), new(redact.Secrets))
	}
	read()
	return func(err error) error { return read().HideError(err) }
}

// ConnectCluster connects a member to one of the NATS servers of its cluster by dial; nil: at
// cluster.nats.url, or to the embedded server of the member that runs on this machine. The
// connection reconnects until it is cut or closed, and reads the secrets again each time. The
// error contains no secret. ctx bounds the first attempt only. Losses of the connection
// are logged, and errors that servers report: each text once in errorInterval.
func ConnectCluster(ctx context.Context, c *configs.Cluster, dial func(context.Context) (net.Conn, error), log *slog.Logger) (*natswire.Conn, error) {
	if err := CheckCluster(c); err != nil {
		return nil, fmt.Errorf("cluster.%w", err)
	}
	o, err := NATS(c.NATS.Connection())
	if err != nil {
		return nil, fmt.Errorf("cluster.nats: %w", err)
	}
	login, err := signInAgain(c.NATS.Connection())
	if err != nil {
		return nil, fmt.Errorf("cluster.nats: %w", err)
	}
	place := fmt.Sprintf("the NATS servers of cluster.nats.url, %s", c.NATS.URL)
	advice := "check the address and the credentials, and that one of them is up"
	if e := c.NATS.Embedded; e != nil {
		o.URL, place, advice = "nats://member", "the NATS server of the member on this machine", "see whether the bridge runs here, and what it logs"
		if dial == nil {
			dial = natsserver.DialMember(e)
		}
	}
	redacted := HideCluster(c)
	hide := func(err error) string {
		if err == nil {
			return "it was closed"
		}
		return redacted(err).Error()
	}
	reported := errorLimiter{}
	lease := time.Duration(c.Lease)
	conn, err := natswire.Connect(ctx, o.URL, natswire.Options{TLS: o.TLS, MaxMessage: maxClusterMessage, Dial: dial}, []nats.Option{
		login,
		nats.Name("ndrbridge " + c.Name + " " + c.Member), nats.Timeout(min(lease, 5*time.Second)),
		// Nothing is buffered while there is no connection: sending fails. Errors of
		// authentication do not end it, because servers report them while they are
		// misconfigured or being restarted.
		nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(),
		// A connection that is dead without a sign must not cost more than a lease.
		nats.PingInterval(lease / 4), nats.MaxPingsOutstanding(2), nats.FlusherTimeout(lease / 2),
		nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
		nats.DisconnectErrHandler(func(conn *nats.Conn, err error) {
			if !conn.IsClosed() {
				log.Warn("the connection to the NATS servers of the cluster is lost; it is being restored", "error", hide(err))
			}
		}),
		nats.ReconnectHandler(func(conn *nats.Conn) {
			log.Info("the connection to the NATS servers of the cluster is restored", "server", conn.ConnectedAddr())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if !reported.allow(err.Error(), time.Now()) {
				return
			}
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Warn("the NATS servers of the cluster reported an error", "error", hide(err), "subject", subject)
		}),
	}...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %s: %s", place, hide(err), advice)
	}
	return conn, nil
}

const (
	errorInterval = 5 * time.Minute
	maxErrors     = 16 // in errorInterval, because the server chooses the texts
)

// errorLimiter has the texts that were logged within errorInterval, and when. It is used by one
// goroutine.
type errorLimiter map[string]time.Time

// allow reports whether text is to be logged now, and notes that it is.
func (l errorLimiter) allow(text string, now time.Time) bool {
	maps.DeleteFunc(l, func(_ string, at time.Time) bool { return now.Sub(at) >= errorInterval })
	if _, logged := l[text]; logged || len(l) >= maxErrors {
		return false
	}
	l[text] = now
	return true
}

// signInAgain returns connection options that read valid credentials at each connection.
func signInAgain(n configs.NATS) (nats.Option, error) {
	read := func() natssink.Options {
		o, _ := NATS(n) // without a secret, the server refuses the connection
		return o
	}
	switch {
	case n.CredsFile != "":
		return nats.UserCredentials(n.CredsFile), nil
	case n.NKeyFile != "":
		return nats.NkeyOptionFromSeed(n.NKeyFile)
	case n.Token.IsSet():
		return nats.TokenHandler(func() string { return read().Token }), nil
	}
	return nats.UserInfoHandler(func() (name, password string) {
		o := read()
		return o.Username, o.Password
	}), nil
}
