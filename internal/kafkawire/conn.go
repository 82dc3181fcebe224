// Package kafkawire makes connections to Kafka brokers and exchanges requests over
// them. It is apart from the sink and from the ticket intake, which share it, since
// what is read here is not to be trusted: a port may answer another protocol, and a
// broken or hostile broker anything.
//
// An answer's size is checked before memory is taken for it, and the length of every
// list and text in it before it is decoded (see shape). The answer to a fetch may be
// larger than what is read of it, since a broker answers with one record batch at least:
// one that is too large to be read is known by its header alone. Each phase of a connection ends
// with its context, and has a time limit of its own.
//
// Requests and answers are of kmsg, in the last versions before Kafka's flexible
// encoding (KIP-482): brokers from 0.11 to 4.x take them.
package kafkawire

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/linklocal"
	"ndrbridge/sinks"
)

// idle is how long a connection may lie unused and still be trusted. Brokers
// and firewalls drop idle connections after some minutes without a word.
const idle = time.Minute

// DialTimeout bounds the making of a connection, so that a caller has time left to
// ask another broker.
const DialTimeout = 5 * time.Second

// oldestProduce is the first version of produce requests that takes record
// batches of format v2.
const oldestProduce = 3

// Dialer makes connections that are ready for requests. It is safe for concurrent use.
type Dialer struct {
	// Brokers are the configured addresses, host:port. Any other address was
	// advertised by the cluster, and is not connected to if it is link-local, or names
	// no host.
	Brokers []string
	// TLS is nil for connections without TLS. Its ServerName, if empty, is the
	// broker's host.
	TLS *tls.Config
	// Login authenticates; nil: no authentication.
	Login    *Login
	ClientID string
}

// Dial connects, secures and authenticates. An error of the broker's answer is a
// *sinks.Error; others are those of net and crypto/tls.
func (d *Dialer) Dial(ctx context.Context, address string) (_ *Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	dialer := &net.Dialer{}
	if !slices.Contains(d.Brokers, address) {
		if err := checkAdvertised(address); err != nil {
			return nil, err
		}
		dialer.Control = linklocal.Refuse
	}
	socket, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Conn{socket: socket, stream: socket, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(d.ClientID)), versions: firstVersions}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if d.TLS != nil {
		config := d.TLS
		if config.ServerName == "" {
			config = config.Clone()
			if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
				return nil, err
			}
		}
		secure := tls.Client(socket, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		c.stream = secure
	}
	if err := c.negotiate(ctx); err != nil {
		return nil, err
	}
	if d.Login != nil {
		if err := d.Login.authenticate(ctx, c); err != nil {
			return nil, err
		}
	}
	return c, ctx.Err()
}

// checkAdvertised refuses what no configuration could name: an empty host would be
// this machine.
func checkAdvertised(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return advise(sinks.Transient, seeListeners, fmt.Errorf("the cluster advertises %q, which names no host", address))
	}
	return nil
}

// Conn is a connection to a broker. It is not safe for concurrent use.
type Conn struct {
	socket   net.Conn
	stream   net.Conn // over socket
	format   *kmsg.RequestFormatter
	versions map[int16]int16  // by key: those that both sides know
	unknown  map[int16]string // by key: those that the broker takes, of which none is known here
	sent     int32            // requests
	request  []byte           // memory of the last one
	cut      bool             // the last answer was not read to its end
}

// negotiate learns which versions of requests the broker takes.
func (c *Conn) negotiate(ctx context.Context) error {
	request := kmsg.NewPtrApiVersionsRequest()
	answer, err := c.Exchange(ctx, request)
	if err != nil {
		return err
	}
	response := answer.(*kmsg.ApiVersionsResponse)
	if response.ErrorCode != 0 {
		return ErrorOfCode(response.ErrorCode, "", "asking for the broker's version")
	}
	versions, unknown := make(map[int16]int16, len(apis)), map[int16]string{}
	for _, theirs := range response.ApiKeys {
		ours, known := apis[theirs.ApiKey]
		if version := min(ours.newest, theirs.MaxVersion); known && version >= max(ours.oldest, theirs.MinVersion) {
			versions[theirs.ApiKey] = version
		} else if known {
			unknown[theirs.ApiKey] = fmt.Sprintf("%d to %d", theirs.MinVersion, theirs.MaxVersion)
		}
		if kmsg.Key(theirs.ApiKey) == kmsg.Produce && theirs.MaxVersion < oldestProduce {
			return sinks.Errorf(sinks.Halted, "the broker is older than Kafka 0.11, which is the oldest that is supported")
		}
	}
	c.versions, c.unknown = versions, unknown
	return nil
}

// Exchange sends a request and reads its answer. When ctx ends, it returns
// promptly with ctx's error. Once ctx has ended, an error was returned or an answer was
// cut, the connection must be closed.
func (c *Conn) Exchange(ctx context.Context, request kmsg.Request) (kmsg.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.socket.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answer, err := c.exchange(request)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return answer, err
}

// keptRequest is how much memory of a request a connection keeps for the next one.
const keptRequest = 2 << 20

func (c *Conn) exchange(request kmsg.Request) (kmsg.Response, error) {
	version, ok := c.versions[request.Key()]
	if !ok {
		return nil, c.unsupported(request.Key())
	}
	request.SetVersion(version)
	c.sent++
	c.request = c.format.AppendRequest(c.request[:0], request, c.sent)
	_, err := c.stream.Write(c.request)
	if cap(c.request) > keptRequest {
		c.request = nil
	}
	if err != nil {
		return nil, err
	}
	api := apis[request.Key()]
	frame, unread, err := readFrame(c.stream, api.most, api.whole)
	if err != nil {
		return nil, err
	}
	if id := int32(binary.BigEndian.Uint32(frame)); id != c.sent {
		return nil, foreign("it answers request %d, and was sent %d", id, c.sent)
	}
	body := frame[correlationSize:]
	if c.cut = unread > 0; c.cut {
		if err := cutRecords(body, version, unread); err != nil {
			return nil, err
		}
	}
	return decode(request, api.answer, body)
}

// unsupported is the error of a request of which both sides know no version.
func (c *Conn) unsupported(key int16) error {
	ours, name := apis[key], kmsg.NameForKey(key)
	theirs, some := c.unknown[key]
	if !some {
		theirs = "none"
	}
	return sinks.Errorf(sinks.Halted, "the broker takes the versions %s of %s requests, and this program sends %d to %d: it works with brokers from Kafka 0.11 to 4.x",
		theirs, name, ours.oldest, ours.newest)
}

// decode reads an answer whose shape it has checked. A panic of the decoder is an
// error of the answer.
func decode(request kmsg.Request, s shape, body []byte) (answer kmsg.Response, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = foreign("its %s answer cannot be decoded: %v", kmsg.NameForKey(request.Key()), cause)
		}
	}()
	if err := s.check(body, request.GetVersion()); err != nil {
		return nil, foreign("its %s answer is malformed: %w", kmsg.NameForKey(request.Key()), err)
	}
	answer = request.ResponseKind()
	if err := answer.ReadFrom(body); err != nil {
		return nil, foreign("its %s answer is malformed: %w", kmsg.NameForKey(request.Key()), err)
	}
	return answer, nil
}

// Close closes the connection at once: TLS's farewell, which a peer that does not read
// would delay, means nothing to a broker.
func (c *Conn) Close() { c.socket.Close() }

// Link is the connection to one broker: made when it is needed, and again after
// an error. It is not safe for concurrent use.
type Link struct {
	dialer  *Dialer
	address string
	conn    *Conn
	used    time.Time
}

// NewLink returns a link that has not connected.
func NewLink(d *Dialer, address string) *Link { return &Link{dialer: d, address: address} }

// Connected reports whether there is a connection.
func (l *Link) Connected() bool { return l.conn != nil }

// Exchange sends a request and reads its answer, within the time that such a request
// has, if it has one. An error is a *sinks.Error.
func (l *Link) Exchange(ctx context.Context, request kmsg.Request) (kmsg.Response, error) {
	if l.conn != nil && time.Since(l.used) > idle {
		l.Close()
	}
	tried := "kafka broker " + l.address
	if l.conn == nil {
		conn, err := l.dialer.Dial(ctx, l.address)
		if err != nil {
			return nil, ErrorOfConnection(ctx, err, tried)
		}
		l.conn = conn
	}
	within := ctx
	if limit := apis[request.Key()].limit; limit > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	answer, err := l.conn.Exchange(within, request)
	if err != nil {
		l.Close()
		return nil, ErrorOfConnection(ctx, err, tried)
	}
	// Either nothing more can be read, or the answer came in time, but the connection's
	// deadline was moved.
	if l.conn.cut || within.Err() != nil {
		l.Close()
	}
	l.used = time.Now()
	return answer, nil
}

// Close closes the connection, if there is one.
func (l *Link) Close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}
