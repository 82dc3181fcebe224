package nats

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/preflight"
	"ndrbridge/transform"
)

// Trial says what Check is to look at.
type Trial struct {
	// Sure and Possible are events that the sink will publish, and that it may.
	Sure, Possible []transform.Event
	// RetryMax is how long an event that failed may wait before it is sent again.
	RetryMax time.Duration
	// Reads is the subject that is received from, in the place of the sink's; empty:
	// the sink publishes. Durable is the consumer that receives.
	Reads, Durable string
	// Now is the time that certificates are held against.
	Now func() time.Time
}

// Check tries each of the servers, and the stream, as Send would use them. It
// publishes no event, and makes neither stream nor consumer. It must not run beside
// Send.
func (s *Sink) Check(ctx context.Context, t Trial) []preflight.Finding {
	servers := strings.Split(s.options.URL, ",")
	results := make([][]preflight.Finding, len(servers))
	conns := make([]*conn, len(servers))
	var trials sync.WaitGroup
	for i, server := range servers {
		trials.Go(func() { results[i], conns[i] = s.tryServer(ctx, t, strings.TrimSpace(server)) })
	}
	trials.Wait()
	alive := slices.IndexFunc(conns, func(c *conn) bool { return c != nil })
	var found []preflight.Finding
	for _, result := range results {
		for _, f := range result {
			if alive >= 0 && f.Result == preflight.Failed { // the others are enough
				f.Result = preflight.Warning
			}
			found = append(found, f)
		}
	}
	if alive >= 0 {
		found = append(found, s.tryStream(ctx, t, conns[alive])...)
		if t.Reads == "" {
			found = append(found, s.tryPermission(ctx, t, conns[alive])...)
		}
	}
	for _, c := range conns {
		if c != nil {
			c.end()
		}
	}
	return preflight.Hide(found, s.options.Secrets().Hide)
}

// tryServer connects to one server; the connection is nil where that fails.
func (s *Sink) tryServer(ctx context.Context, t Trial, server string) ([]preflight.Finding, *conn) {
	address := s.addressOf(server)
	way := &preflight.Path{Address: address, Key: "url", Now: t.Now}
	alone := &Sink{options: s.options, subject: s.subject}
	alone.options.URL = server
	scheme, _, _ := strings.Cut(server, "://")
	if alone.options.TLS == nil && (scheme == "tls" || scheme == "wss") {
		alone.options.TLS = &tls.Config{} // as the library takes it by itself
	}
	alone.options.TLS = way.Secure(alone.options.TLS)
	whole := ctx
	ctx, cancel := preflight.Half(whole)
	defer cancel()
	c, err := alone.dial(way.Watch(ctx))
	found, explained := way.Findings(err)
	if err != nil && !explained {
		f, late := preflight.Failure("sign-in", alone.wrap(ctx, err)), ctx.Err() != nil
		if wrong, ok := wrongPort(whole, scheme, address); ok {
			f = wrong
		} else if late {
			f.Detail = "the connection stands, and the server does not answer"
		}
		if f.Advice == "" {
			f.Advice = "is it a NATS server that listens there, on the port for clients?"
			if scheme == "ws" || scheme == "wss" {
				f.Advice = "is it a NATS server that listens there, on the port for WebSocket?"
			}
		}
		found = append(found, f)
	}
	if err == nil {
		signIn := preflight.Finding{Step: "sign-in", Result: preflight.OK, Detail: "nats-server " + c.ConnectedServerVersion() + " takes the connection"}
		secret := s.options.Password != "" || s.options.Token != "" || strings.Contains(server, "@")
		if !c.Secure() && secret {
			signIn.Result, signIn.Detail = preflight.Warning, signIn.Detail+", and the password or token is sent in the clear"
			signIn.Advice = "use tls:// in url, or creds_file or nkey_file, which send none"
		}
		found = append(found, signIn)
	}
	return preflight.At("server "+address, found), c
}

// wrongPort looks whether another protocol is spoken at an address than a server's scheme
// says.
func wrongPort(ctx context.Context, scheme, address string) (f preflight.Finding, found bool) {
	if scheme == "wss" { // its handshake says so
		return f, false
	}
	f = preflight.PlainToTLS("wss")
	switch expectsTLS, answersHTTP := preflight.Recognize(ctx, address); {
	case expectsTLS && scheme == "ws":
	case expectsTLS:
		f.Detail = "what listens there expects TLS from the first byte, and NATS begins in plain text"
		f.Advice = "use the port for NATS clients; a server with handshake_first is not supported"
	case answersHTTP && scheme != "ws":
		f.Step, f.Detail = "sign-in", "what listens there speaks HTTP, and not NATS"
		f.Advice = "use the port for NATS clients in url, or ws:// if it is the server's port for WebSocket"
	default:
		return f, false
	}
	return f, true
}

// addressOf is host and port of a server.
func (s *Sink) addressOf(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "" // New has refused it
	}
	if u.Port() != "" {
		return u.Host
	}
	port := map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	if port == "" {
		port = "4222"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// anyCaptures reports whether one of some subjects takes another in.
func anyCaptures(wide []string, subject string) bool {
	return slices.ContainsFunc(wide, func(one string) bool { return captures(one, subject) })
}

// outside are the subjects of the events that are not taken.
func (s *Sink) outside(events []transform.Event, taken func(subject string) bool) []string {
	var all []string
	for _, e := range events {
		if subject := token(s.subject.Expand(e)); !taken(subject) {
			all = append(all, subject)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// notTaken tells subjects that are outside: of events that will come, and of those
// that may. It is nothing where there are none.
func (s *Sink) notTaken(t Trial, step string, taken func(subject string) bool, words, advice string) []preflight.Finding {
	if sure := s.outside(t.Sure, taken); len(sure) > 0 {
		return []preflight.Finding{{Step: step, Result: preflight.Failed, Detail: words + " " + strings.Join(sure, ", "), Advice: advice}}
	}
	if possible := s.outside(t.Possible, taken); len(possible) > 0 {
		return []preflight.Finding{{
			Step: step, Result: preflight.Warning, Detail: words + " " + strings.Join(possible, ", ") + "; only events that match may not let through go there",
			Advice: advice,
		}}
	}
	return nil
}

func (s *Sink) tryStream(ctx context.Context, t Trial, c *conn) []preflight.Finding {
	if s.options.Stream == "" {
		return []preflight.Finding{{
			Step: "stream", Result: preflight.Remark,
			Detail: fmt.Sprintf("core NATS: an event reaches those who are subscribed at that moment, and is kept nowhere; messages of up to %d bytes", c.MaxPayload()),
		}}
	}
	step, subjects := "stream "+s.options.Stream, filter(s.subject.Fill("*"))
	if t.Reads != "" {
		subjects = t.Reads
	}
	look := &Sink{options: s.options, subject: s.subject, secrets: s.options.Secrets()}
	look.options.CreateStream = false
	stream, err := look.findStream(ctx, c, subjects)
	if errors.Is(err, jetstream.ErrStreamNotFound) && (s.options.CreateStream || look.ownerOf(ctx, c, subjects) != "") {
		return []preflight.Finding{look.tryCreation(ctx, c, step, subjects)}
	}
	// A sink that may make the stream wants all that its template can give.
	if whole := s.options.CreateStream || t.Reads != ""; whole || err != nil {
		if err := look.fits(ctx, stream, subjects, err); err != nil {
			f := preflight.Failure(step, err)
			if f.Advice == "" {
				f.Advice = "see the server's log, and check again"
			}
			return []preflight.Finding{f}
		}
	}
	config := stream.CachedInfo().Config
	found := []preflight.Finding{{Step: step, Result: preflight.OK, Detail: fmt.Sprintf("it takes %q", config.Subjects)}}
	if t.Reads == "" {
		takes := func(subject string) bool { return anyCaptures(config.Subjects, subject) }
		if wrong := s.notTaken(t, step, takes, fmt.Sprintf("it takes %q, and not", config.Subjects), "see subject, or add them to the stream"); wrong != nil {
			found = wrong
		}
	}
	add := func(result preflight.Result, detail, advice string) {
		found = append(found, preflight.Finding{Step: step, Result: result, Detail: detail, Advice: advice})
	}
	if t.Reads != "" {
		if _, err := stream.Consumer(ctx, t.Durable); errors.Is(err, jetstream.ErrConsumerNotFound) {
			add(preflight.Remark, "the consumer "+t.Durable+" does not exist, and will be made", "")
		} else if err != nil {
			found = append(found, preflight.Failure(step, look.errorOf(ctx, err)))
		}
		return found
	}
	if config.Sealed {
		add(preflight.Failed, "it is sealed, and takes nothing more", "make another stream, and see stream")
	}
	const small = 256 << 10
	if most := int64(config.MaxMsgSize); most > 0 && most < small {
		add(preflight.Warning, fmt.Sprintf("it takes messages of up to %d bytes: what is larger is rejected", most), "raise the stream's max_msg_size")
	}
	if config.Duplicates <= t.RetryMax {
		add(preflight.Warning, fmt.Sprintf("it knows a duplicate for %s, and an event may be sent again after %s: it would be there twice", config.Duplicates, t.RetryMax),
			"raise the stream's duplicate window, or lower retry.max")
	}
	if config.Storage == jetstream.MemoryStorage {
		add(preflight.Remark, "it is kept in memory: what it holds is lost with the server", "")
	} else if config.Replicas < 2 {
		add(preflight.Remark, "it has one replica: a power loss may take what was acknowledged in the two minutes before, unless the server has sync_interval: always", "")
	}
	return found
}

// tryCreation looks at what is known to speak against a stream. The protocol has no
// trial of making one.
func (s *Sink) tryCreation(ctx context.Context, c *conn, step, subjects string) preflight.Finding {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	js, err := jetstream.New(c.Conn.Conn)
	if err != nil {
		return preflight.Failure(step, s.errorOf(ctx, err))
	}
	if other := s.ownerOf(ctx, c, subjects); other != "" {
		return preflight.Finding{
			Step: step, Result: preflight.Failed, Detail: fmt.Sprintf("it does not exist, and cannot be made: the stream %s has subjects of %s", other, subjects),
			Advice: "name that stream, or use another subject",
		}
	}
	account, err := js.AccountInfo(ctx)
	if err == nil && account.Limits.MaxStreams >= 0 && account.Streams >= account.Limits.MaxStreams {
		return preflight.Finding{
			Step: step, Result: preflight.Failed, Detail: fmt.Sprintf("it does not exist, and the account has as many streams as it may: %d", account.Streams),
			Advice: makeByHand,
		}
	}
	return preflight.Finding{Step: step, Result: preflight.Remark, Detail: "it does not exist, and will be made for " + subjects + " at the first event, if the user may"}
}

// ownerOf returns the stream that has subjects among some; empty: none, as far as the
// server says. What is published there goes to that stream, and no other can be made
// for them.
func (s *Sink) ownerOf(ctx context.Context, c *conn, subjects string) string {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	js, err := jetstream.New(c.Conn.Conn)
	if err != nil {
		return ""
	}
	names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subjects))
	owner := ""
	for name := range names.Name() { // all of them: the listing ends by itself then
		owner = cmp.Or(owner, name)
	}
	return owner
}

// tryPermission asks the server what the user may publish. Older servers do not say,
// nor do those where the user may not ask.
func (s *Sink) tryPermission(ctx context.Context, t Trial, c *conn) []preflight.Finding {
	const step = "permissions"
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var answer struct {
		Data struct {
			Permissions *struct {
				Publish struct{ Allow, Deny []string }
			}
		}
	}
	said, err := c.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
	if err != nil || json.Unmarshal(said.Data, &answer) != nil {
		return []preflight.Finding{{Step: step, Result: preflight.Untried, Detail: "the server does not tell what the user may publish"}}
	}
	if p := answer.Data.Permissions; p != nil {
		may := func(subject string) bool {
			return (len(p.Publish.Allow) == 0 || anyCaptures(p.Publish.Allow, subject)) && !anyCaptures(p.Publish.Deny, subject)
		}
		if wrong := s.notTaken(t, step, may, "the user may not publish to", "let the user publish there"); wrong != nil {
			return wrong
		}
	}
	return []preflight.Finding{{Step: step, Result: preflight.OK, Detail: "the user may publish what the sink sends"}}
}
