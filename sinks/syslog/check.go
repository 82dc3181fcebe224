package syslog

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
)

// tryBySend is the advice for testing what syslog has no answer to.
const tryBySend = "see whether a test event arrives: ndrbridge send SINK"

// Check connects to the receiver and sends no message.
func (s *Sink) Check(ctx context.Context, t sinks.Trial) []finding.Finding {
	return s.transport.check(ctx, &finding.Path{Peer: failure.Peer{Address: s.o.Address, Key: "address", Now: t.Now}})
}

// check looks the address up. A datagram would be an event.
func (d *datagrams) check(ctx context.Context, path *finding.Path) []finding.Finding {
	conn, err := d.dial(path.Watch(ctx), "udp", d.o.Address)
	found, explained := path.Findings(err)
	switch {
	case err == nil:
		conn.Close()
		for i := range found {
			if found[i].Step == "connect" { // of a UDP socket, it means nothing
				found[i].Result, found[i].Detail = finding.Remark, "events go to "+conn.RemoteAddr().String()+" over UDP, unencrypted"
			}
		}
		return append(found, finding.Finding{
			Step: "delivery", Result: finding.Untried,
			Detail: "UDP has no connection and no answer: whether a receiver listens there cannot be known, and neither can what arrives",
			Advice: "use network: tls or tcp if the receiver supports it; otherwise " + tryBySend,
		})
	case !explained:
		found = append(found, finding.Failure("address", err))
	}
	return found
}

// check connects as open does.
func (s *stream) check(ctx context.Context, path *finding.Path) []finding.Finding {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	begun := time.Now()
	c, err := s.dial(path.Watch(ctx), path.Secure(s.o.TLS))
	if err != nil {
		found, explained := path.Findings(err)
		if !explained {
			f := finding.Finding{Step: "tls", Result: finding.Failed, Detail: err.Error(), Advice: "check that the receiver speaks TLS on this port"}
			if ctx.Err() != nil {
				f.Detail = "the server does not answer the TLS handshake"
			}
			found = append(found, f)
		}
		return found
	}
	found, _ := path.Findings(nil)
	err = c.settle(ctx, time.Since(begun))
	c.end(err != nil)
	if err != nil {
		if e := failure.Explain(err, path.Peer); e != nil {
			err = e
		}
		f := finding.Failure("delivery", fmt.Errorf("the connection ended at once: %w", err))
		f.Advice = cmp.Or(f.Advice, "check host and port in address, what the receiver accepts, and its log")
		return append(found, f)
	}
	if s.o.Network == networkTCP {
		found = append(found, finding.Finding{
			Step: "tls", Result: finding.Warning, Detail: "plain TCP: anyone on the network path can read and change the events, and whether the receiver expects TLS there cannot be known without sending something",
			Advice: "use network: tls if the receiver supports it",
		})
	}
	return append(found, finding.Finding{
		Step: "delivery", Result: finding.Untried, Detail: "the receiver can be reached, but syslog has no answer: what it does with events cannot be known",
		Advice: tryBySend,
	})
}
