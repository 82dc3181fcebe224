package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"

	"ndrbridge/sinks"
)

// idle is how long a connection may lie unused and still be trusted. Brokers
// and firewalls drop idle connections after some minutes without a word.
const idle = time.Minute

// dialTimeout bounds the making of a connection, so that a Send has time left to
// ask another broker.
const dialTimeout = 5 * time.Second

// oldestProduce is the first version of produce requests that takes record
// batches of format v2.
const oldestProduce = 3

// dialer makes connections that are ready for requests.
type dialer struct {
	tls      *tls.Config
	login    *login // nil: no authentication
	clientID string
}

// dial connects, secures and authenticates. An error of the broker's answer is a
// *sinks.Error; others are those of net and crypto/tls.
func (d *dialer) dial(ctx context.Context, address string) (_ *protocol.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	stream, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			stream.Close()
		}
	}()
	if d.tls != nil {
		config := d.tls
		if config.ServerName == "" {
			config = config.Clone()
			if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
				return nil, err
			}
		}
		secure := tls.Client(stream, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		stream = secure
	}
	conn := protocol.NewConn(stream, d.clientID)
	answer, err := exchange(ctx, conn, &apiversions.Request{})
	if err != nil {
		return nil, err
	}
	response := answer.(*apiversions.Response)
	if response.ErrorCode != 0 {
		return nil, errorOfCode(response.ErrorCode, "", "asking for the broker's version")
	}
	versions := make(map[protocol.ApiKey]int16, len(response.ApiKeys))
	for _, api := range response.ApiKeys {
		key := protocol.ApiKey(api.ApiKey)
		versions[key] = key.SelectVersion(api.MinVersion, api.MaxVersion)
	}
	if versions[protocol.Produce] < oldestProduce {
		return nil, sinks.Errorf(sinks.Halted, "the broker is older than Kafka 0.11, which this sink needs")
	}
	conn.SetVersions(versions)
	if d.login != nil {
		if err := d.login.authenticate(ctx, conn); err != nil {
			return nil, err
		}
	}
	return conn, ctx.Err()
}

// exchange sends a request and reads its answer. When ctx ends, it returns
// promptly with ctx's error. Once ctx has ended or an error was returned, the
// connection must be closed.
func exchange(ctx context.Context, conn *protocol.Conn, request protocol.Message) (protocol.Message, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answer, err := conn.RoundTrip(request)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return answer, err
}

// link is the connection to one broker: made when it is needed, and again after
// an error. It is not safe for concurrent use.
type link struct {
	dialer  *dialer
	address string
	conn    *protocol.Conn
	used    time.Time
}

// exchange sends a request and reads its answer. An error is a *sinks.Error.
func (l *link) exchange(ctx context.Context, request protocol.Message) (protocol.Message, error) {
	if l.conn != nil && time.Since(l.used) > idle {
		l.close()
	}
	tried := "kafka broker " + l.address
	if l.conn == nil {
		conn, err := l.dialer.dial(ctx, l.address)
		if err != nil {
			return nil, errorOfConnection(ctx, err, tried)
		}
		l.conn = conn
	}
	answer, err := exchange(ctx, l.conn, request)
	if err != nil {
		l.close()
		return nil, errorOfConnection(ctx, err, tried)
	}
	if ctx.Err() != nil {
		l.close() // the answer came in time, but the connection's deadline was moved
	}
	l.used = time.Now()
	return answer, nil
}

func (l *link) close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}
