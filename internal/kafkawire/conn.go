// Package kafkawire connects to Kafka brokers and exchanges requests with them. The
// sink and the ticket intake share it. It is a package of its own because nothing that
// it reads can be trusted: a port may speak another protocol, and a broken or hostile
// broker may answer anything.
//
// The size of an answer is checked before memory is allocated for it, and the length of
// every list and text in it before it is decoded (see shape). The answer to a fetch may
// be larger than the part that is read, because a broker returns at least one record
// batch: only the header of a batch that is too large is read. Each phase of a
// connection ends when its context is done, and has a time limit of its own.
//
// Requests and answers are those of package kmsg, in the last versions before Kafka's
// flexible encoding (KIP-482), which brokers from 0.11 to 4.x support.
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

	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/linklocal"
)

// maxIdle is how long an unused connection is kept. Brokers and firewalls drop idle
// connections silently after some minutes.
const maxIdle = time.Minute

// DialTimeout bounds Dial, so that a caller has time left to try another broker.
const DialTimeout = 5 * time.Second

// oldestProduce is the first version of produce requests with record batches of
// format v2.
const oldestProduce = 3

// Dialer opens connections that are ready for requests. It is safe for concurrent use.
type Dialer struct {
	// Brokers are the configured addresses, as host:port. Any other address was
	// advertised by the cluster, and is refused if it is link-local or names no host.
	Brokers []string
	// TLS is nil for connections without TLS. An empty ServerName means the broker's
	// host.
	TLS *tls.Config
	// Lease must be valid when something is sent; nil: it never ends.
	Lease *lease.Lease
	// Login authenticates connections; nil: no authentication.
	Login    *Login
	ClientID string
}

// Shown returns an address for messages: without the password if the cluster advertised
// it.
func (d *Dialer) Shown(address string) string {
	if slices.Contains(d.Brokers, address) {
		return address
	}
	return d.Login.Hide(address)
}

// Dial connects, performs the TLS handshake and authenticates. An error that the broker
// answers is a *failure.Error; other errors are those of net and crypto/tls. No error contains
// the password, even if the broker repeated it.
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
		return nil, d.hideError(err)
	}
	socket = d.Lease.Conn(socket)
	c := &Conn{login: d.Login, socket: socket, stream: socket, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(d.ClientID)), versions: firstVersions}
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
			return nil, d.hideError(err)
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

// hideError removes the password from an error that names an address or a certificate.
func (d *Dialer) hideError(err error) error {
	if d.Login == nil {
		return err
	}
	return d.Login.secrets.HideError(err)
}

// checkAdvertised refuses an advertised address without a host: an empty host would be
// this machine.
func checkAdvertised(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return failure.Advise(failure.Transient, checkListeners, fmt.Errorf("the cluster advertises %q, which names no host", address))
	}
	return nil
}

// Conn is a connection to a broker. It is not safe for concurrent use.
type Conn struct {
	login    *Login // whose password is removed from answers; may be nil
	socket   net.Conn
	stream   net.Conn // over socket
	format   *kmsg.RequestFormatter
	versions map[int16]versions // of requests that the broker supports, by key
	sent     int32              // number of requests
	request  []byte             // buffer of the last request
	cut      bool               // the last answer was not read completely
}

// versions is the range of versions of a request that a broker supports.
type versions struct{ oldest, newest int16 }

// firstVersions is what every broker supports: the first request on a connection.
var firstVersions = map[int16]versions{int16(kmsg.ApiVersions): {0, 0}}

// negotiate asks which versions of requests the broker supports.
func (c *Conn) negotiate(ctx context.Context) error {
	request := kmsg.NewPtrApiVersionsRequest()
	answer, err := c.Exchange(ctx, request)
	if err != nil {
		return err
	}
	response := answer.(*kmsg.ApiVersionsResponse)
	if response.ErrorCode != 0 {
		return ErrorOfCode(response.ErrorCode, "", "request the broker's versions")
	}
	c.versions = make(map[int16]versions, len(apis))
	for _, k := range response.ApiKeys {
		if _, known := apis[k.ApiKey]; known {
			c.versions[k.ApiKey] = versions{k.MinVersion, k.MaxVersion}
		}
		if kmsg.Key(k.ApiKey) == kmsg.Produce && k.MaxVersion < oldestProduce {
			return failure.Errorf(failure.Halted, "the broker is older than Kafka 0.11, which is the oldest that is supported")
		}
	}
	return nil
}

// Exchange sends a request and reads its answer. When ctx is done, it returns ctx's
// error promptly. The connection must be closed once ctx is done, after an error, and
// after an answer that was cut.
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

// maxRequestBuffer is the largest buffer that a connection keeps for the next request.
const maxRequestBuffer = 2 << 20

func (c *Conn) exchange(request kmsg.Request) (kmsg.Response, error) {
	version, err := c.version(request.Key())
	if err != nil {
		return nil, err
	}
	request.SetVersion(version)
	c.sent++
	c.request = c.format.AppendRequest(c.request[:0], request, c.sent)
	_, err = c.stream.Write(c.request)
	if cap(c.request) > maxRequestBuffer {
		c.request = nil
	}
	if err != nil {
		return nil, err
	}
	api := apis[request.Key()]
	frame, unread, err := readFrame(c.stream, api.maxRead, api.maxSize)
	if err != nil {
		return nil, err
	}
	if id := int32(binary.BigEndian.Uint32(frame)); id != c.sent {
		return nil, foreign("it answers request %d instead of %d", id, c.sent)
	}
	body := frame[correlationSize:]
	if c.cut = unread > 0; c.cut {
		if err := cutRecords(body, version, unread); err != nil {
			return nil, err
		}
	}
	answer, err := decode(request, api.answer, body)
	if err == nil {
		c.login.hideTexts(answer)
	}
	return answer, err
}

// version returns the newest version of a kind of request that both sides support.
func (c *Conn) version(key int16) (int16, error) {
	ours, supported := apis[key], "none"
	if theirs, ok := c.versions[key]; ok {
		if version := min(ours.newest, theirs.newest); version >= max(ours.oldest, theirs.oldest) {
			return version, nil
		}
		supported = fmt.Sprintf("%d to %d", theirs.oldest, theirs.newest)
	}
	return 0, failure.Errorf(failure.Halted, "the broker supports the versions %s of %s requests, this program %d to %d: it works with brokers from Kafka 0.11 to 4.x",
		supported, kmsg.NameForKey(key), ours.oldest, ours.newest)
}

// decode checks the shape of an answer and decodes it. A panic of the decoder is
// returned as an error.
func decode(request kmsg.Request, s shape, body []byte) (answer kmsg.Response, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			answer, err = nil, foreign("its %s answer cannot be decoded: %v", kmsg.NameForKey(request.Key()), cause)
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

// Close closes the connection at once. It sends no TLS close_notify, which a peer that
// does not read would delay and which brokers do not need.
func (c *Conn) Close() { c.socket.Close() }

// Link is a connection to one broker that is opened when it is needed, and opened again
// after an error. It is not safe for concurrent use.
type Link struct {
	dialer  *Dialer
	address string
	conn    *Conn
	used    time.Time
}

// NewLink returns a Link to address. It does not connect.
func NewLink(d *Dialer, address string) *Link { return &Link{dialer: d, address: address} }

// Connected reports whether the link has a connection.
func (l *Link) Connected() bool { return l.conn != nil }

// Exchange sends a request and reads its answer, within the time limit of that kind of
// request, if there is one. An error is a *failure.Error.
func (l *Link) Exchange(ctx context.Context, request kmsg.Request) (kmsg.Response, error) {
	if l.conn != nil && time.Since(l.used) > maxIdle {
		l.Close()
	}
	tried := "kafka broker " + l.dialer.Shown(l.address)
	if l.conn == nil {
		conn, err := l.dialer.Dial(ctx, l.address)
		if err != nil {
			return nil, ErrorOfConnection(ctx, err, tried)
		}
		l.conn = conn
	}
	within := ctx
	if timeout := apis[request.Key()].timeout; timeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	answer, err := l.conn.Exchange(within, request)
	if err != nil {
		l.Close()
		return nil, ErrorOfConnection(ctx, err, tried)
	}
	// Either the rest of the answer is unread, or the answer came in time, but the
	// connection's deadline has passed.
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
