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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Check checks each of the servers and the stream, as Send would use them. It publishes no
// event and creates neither stream nor consumer.
func (s *Sink) Check(ctx context.Context, t sinks.Trial) []finding.Finding {
	return s.check(ctx, t, func(c *conn) []finding.Finding {
		found := s.tryStream(ctx, t, c)
		if t.Reads == "" {
			found = append(found, s.tryPermission(ctx, t, c)...)
		}
		return found
	})
}

// CheckServers checks each of the servers, and nothing else, for another program that
// connects to them with the settings of s: then, if one of them can be used, it calls also
// with a connection to it and adds its findings. now returns the time at which
// certificates must be valid.
func (s *Sink) CheckServers(ctx context.Context, now func() time.Time, also func(*nats.Conn) []finding.Finding) []finding.Finding {
	return s.check(ctx, sinks.Trial{Now: now}, func(c *conn) []finding.Finding { return also(c.Conn.Conn) })
}

func (s *Sink) check(ctx context.Context, t sinks.Trial, also func(*conn) []finding.Finding) []finding.Finding {
	servers := strings.Split(s.options.URL, ",")
	results := make([][]finding.Finding, len(servers))
	conns := make([]*conn, len(servers))
	var trials sync.WaitGroup
	for i, server := range servers {
		trials.Go(func() { results[i], conns[i] = s.tryServer(ctx, t, strings.TrimSpace(server)) })
	}
	trials.Wait()
	alive := slices.IndexFunc(conns, func(c *conn) bool { return c != nil })
	var found []finding.Finding
	for _, result := range results {
		for _, f := range result {
			if alive >= 0 && f.Result == finding.Failed { // another server is enough
				f.Result = finding.Warning
			}
			found = append(found, f)
		}
	}
	if alive >= 0 {
		found = append(found, also(conns[alive])...)
	}
	for _, c := range conns {
		if c != nil {
			c.end()
		}
	}
	return found
}

// tryServer connects to one server. The returned connection is nil if that fails.
func (s *Sink) tryServer(ctx context.Context, t sinks.Trial, server string) ([]finding.Finding, *conn) {
	address := s.addressOf(server)
	path := &finding.Path{Peer: failure.Peer{Address: address, Key: "url", Now: t.Now, Hide: s.options.Secrets().Hide}}
	alone := &Sink{options: s.options, subject: s.subject}
	alone.options.URL = server
	scheme, _, _ := strings.Cut(server, "://")
	if alone.options.TLS == nil && scheme == "tls" {
		alone.options.TLS = &tls.Config{} // as the library does
	}
	alone.options.TLS = path.Secure(alone.options.TLS)
	ctx, cancel := finding.Half(ctx)
	defer cancel()
	c, err := alone.dial(path.Watch(ctx))
	found, explained := path.Findings(err)
	if err != nil && !explained {
		f := finding.Failure("sign-in", alone.errorOf(ctx, err))
		if ctx.Err() != nil {
			f.Detail = "connected, but the server does not answer"
		}
		f.Advice = cmp.Or(f.Advice, "is it a NATS server, and the port for clients? WebSocket, and TLS from the first byte (handshake_first), are not supported")
		found = append(found, f)
	}
	if err == nil {
		signIn := finding.Finding{Step: "sign-in", Result: finding.OK, Detail: "nats-server " + alone.secrets.Hide(c.ConnectedServerVersion()) + " accepts the connection"}
		secret := s.options.Password != "" || s.options.Token != "" || strings.Contains(server, "@")
		if !c.Secure() && secret {
			signIn.Result, signIn.Detail = finding.Warning, signIn.Detail+", but the password or token is sent in plain text"
			signIn.Advice = "use tls:// in url, or creds_file or nkey_file, which send no secret"
		}
		found = append(found, signIn)
	}
	return finding.At("server "+address, found), c
}

// addressOf returns the host and port of a server.
func (s *Sink) addressOf(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "" // New has refused it
	}
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), "4222")
}

// anyCaptures reports whether one of the subjects in wide captures subject.
func anyCaptures(wide []string, subject string) bool {
	return slices.ContainsFunc(wide, func(one string) bool { return captures(one, subject) })
}

// subjectsOutside returns the subjects of the events for which allowed returns false.
func (s *Sink) subjectsOutside(events []transform.Event, allowed func(subject string) bool) []string {
	var all []string
	for _, e := range events {
		if subject := token(s.subject.Expand(e)); !allowed(subject) {
			all = append(all, subject)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// outsideFinding returns a finding if allowed returns false for subjects of events that
// the sink will or may publish: the text words, followed by these subjects. It returns nil
// if there are none.
func (s *Sink) outsideFinding(t sinks.Trial, step string, allowed func(subject string) bool, words, advice string) []finding.Finding {
	f := finding.Finding{Step: step, Result: finding.Failed, Advice: advice}
	wrong, addition := s.subjectsOutside(t.Sure, allowed), ""
	if len(wrong) == 0 {
		wrong, addition = s.subjectsOutside(t.Possible, allowed), "; only events that match may filter out go there"
		f.Result = finding.Warning
	}
	if len(wrong) == 0 {
		return nil
	}
	f.Detail = words + " " + strings.Join(wrong, ", ") + addition
	return []finding.Finding{f}
}

// tryStream checks the stream, or describes core NATS if there is none.
func (s *Sink) tryStream(ctx context.Context, t sinks.Trial, c *conn) []finding.Finding {
	if s.options.Stream == "" {
		return []finding.Finding{{
			Step: "stream", Result: finding.Remark,
			Detail: fmt.Sprintf("core NATS: events are not stored, and offline subscribers miss them; messages may have up to %d bytes", c.MaxPayload()),
		}}
	}
	step, subjects := "stream "+s.options.Stream, filter(s.subject.Fill("*"))
	if t.Reads != "" {
		subjects = t.Reads
	}
	checker := &Sink{options: s.options, subject: s.subject, secrets: s.options.Secrets()}
	checker.options.CreateStream = false
	stream, err := checker.findStream(ctx, c, subjects)
	if errors.Is(err, jetstream.ErrStreamNotFound) && s.options.CreateStream { // the protocol cannot validate a request without creating the stream
		return []finding.Finding{{
			Step: step, Result: finding.Remark,
			Detail: "it does not exist; the first event creates it for " + subjects + " if the user may and no other stream has them",
		}}
	}
	// A sink that may create the stream requires all subjects of its template.
	if all := s.options.CreateStream || t.Reads != ""; all || err != nil {
		if err := checker.checkStream(ctx, stream, subjects, err); err != nil {
			f := finding.Failure(step, err)
			if f.Advice == "" {
				f.Advice = "read the server's log, and check again"
			}
			return []finding.Finding{f}
		}
	}
	config := stream.CachedInfo().Config
	its := "its subjects are " + checker.secrets.Hide(fmt.Sprintf("%q", config.Subjects))
	found := []finding.Finding{{Step: step, Result: finding.OK, Detail: its}}
	if t.Reads == "" {
		captured := func(subject string) bool { return anyCaptures(config.Subjects, subject) }
		if wrong := s.outsideFinding(t, step, captured, its+", which do not include", "check subject, or add them to the stream"); wrong != nil {
			found = wrong
		}
	}
	add := func(result finding.Result, detail, advice string) {
		found = append(found, finding.Finding{Step: step, Result: result, Detail: detail, Advice: advice})
	}
	if t.Reads != "" {
		if _, err := stream.Consumer(ctx, t.Durable); errors.Is(err, jetstream.ErrConsumerNotFound) {
			add(finding.Remark, "the consumer "+t.Durable+" does not exist; the bridge creates it", "")
		} else if err != nil {
			found = append(found, finding.Failure(step, checker.errorOf(ctx, err)))
		}
		return found
	}
	if config.Duplicates <= t.RetryMax {
		add(finding.Warning, fmt.Sprintf("its duplicate window is %s, but an event may be sent again after %s and would then be stored twice", config.Duplicates, t.RetryMax),
			"raise the stream's duplicate window, or lower retry.max")
	}
	if config.Storage == jetstream.MemoryStorage {
		add(finding.Remark, "it is kept in memory: its messages are lost if the server stops", "")
	} else if config.Replicas < 2 {
		add(finding.Remark, "it has one replica: a power loss may lose messages acknowledged in the two minutes before it, unless the server has sync_interval: always", "")
	}
	return found
}

// tryPermission checks whether the user may publish. Older servers do not report
// permissions, nor do servers on which the user may not request them.
func (s *Sink) tryPermission(ctx context.Context, t sinks.Trial, c *conn) []finding.Finding {
	const step = "permissions"
	may, known := publishable(ctx, c.Conn.Conn)
	if !known {
		return []finding.Finding{{Step: step, Result: finding.Untried, Detail: "the server does not report what the user may publish"}}
	}
	if wrong := s.outsideFinding(t, step, may, "the user may not publish to", "allow the user to publish there"); wrong != nil {
		return wrong
	}
	return []finding.Finding{{Step: step, Result: finding.OK, Detail: "the user may publish what the sink sends"}}
}

// Forbidden returns the subjects, which may have wildcards, to which the user of the
// connection may not publish. known is false if the server does not report that.
func Forbidden(ctx context.Context, nc *nats.Conn, subjects []string) (forbidden []string, known bool) {
	may, known := publishable(ctx, nc)
	if !known {
		return nil, false
	}
	return slices.DeleteFunc(slices.Clone(subjects), may), true
}

// publishable asks the server for the subjects to which the user may publish.
func publishable(ctx context.Context, nc *nats.Conn) (may func(subject string) bool, known bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var answer struct {
		Data struct {
			Permissions *struct {
				Publish struct{ Allow, Deny []string }
			}
		}
	}
	reply, err := nc.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
	if err != nil || json.Unmarshal(reply.Data, &answer) != nil {
		return nil, false
	}
	p := answer.Data.Permissions
	return func(subject string) bool {
		return p == nil || (len(p.Publish.Allow) == 0 || anyCaptures(p.Publish.Allow, subject)) && !anyCaptures(p.Publish.Deny, subject)
	}, true
}
