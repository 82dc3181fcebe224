// Package nats is the sink that publishes to a JetStream stream or to core NATS,
// according to the CloudEvents NATS protocol binding (draft 1.0.3, because 1.0.2 has no
// headers).
package nats

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"time"

	"ndrbridge/internal/lease"
	"ndrbridge/internal/redact"
	"ndrbridge/internal/secretfile"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Options configure a Sink. They are valid if their configuration is.
type Options struct {
	// URL is the address of one or more servers of a cluster, with the scheme nats
	// or tls, separated by commas. They are tried in any order. Each gets an
	// equal share of Timeout, so that one that hangs does not hide the others.
	URL string
	// Stream is the JetStream stream that must store the events before they count as
	// delivered. Among all of its messages, it drops an event that this sink sends again
	// within its duplicate window.
	//
	// Empty: core NATS. An event counts as delivered once a server has received it;
	// offline subscribers miss it.
	Stream string
	// Sink is the sink's unique name, the first part of the id with which the stream
	// detects duplicates. It is required if Stream is set.
	Sink string
	// Subject is the text of a sinks.Template. Characters that are not allowed in a
	// subject's token are replaced by "_".
	Subject string
	// CreateStream creates a missing stream for all subjects of the template, without
	// limits, in files, with one replica. An existing stream is not changed.
	CreateStream bool

	CredsFile string // user JWT and seed
	NkeyFile  string // seed
	Token     string
	Username  string
	Password  string
	TLS       *tls.Config // nil: TLS only if the server or URL requires it

	// MaxPending bounds the published messages that the stream has not acknowledged;
	// the batch given to Send bounds their bytes. 0: 1000. Core NATS does not use it.
	MaxPending int
	// AckTimeout bounds the wait for the next acknowledgement: a cluster that lost the
	// stream's leader never sends the outstanding ones. 0: 5 s.
	AckTimeout time.Duration
	// Mode is structured (the default) or binary.
	Mode transform.Mode
	// Timeout bounds a Send. 0: 30 s.
	Timeout time.Duration
	// Lease must be valid when something is sent; nil: it never ends.
	Lease *lease.Lease
}

// Sink publishes events. The first Send connects, and so does the first Send after a
// failure; nothing is buffered in between.
type Sink struct {
	options Options
	subject sinks.Template
	secrets redact.Secrets // of the last attempt to connect
	conn    *conn          // nil: none
	message message
}

// New returns a Sink. It contacts no server.
func New(o Options) (*Sink, error) {
	subject, err := sinks.ParseTemplate(o.Subject)
	if err != nil {
		return nil, fmt.Errorf("subject: %w", err)
	}
	o.MaxPending = cmp.Or(o.MaxPending, 1000)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.AckTimeout = cmp.Or(o.AckTimeout, 5*time.Second)
	o.Mode = cmp.Or(o.Mode, transform.Structured)
	return &Sink{options: o, subject: subject}, nil
}

// Secrets returns the credentials, which no text may contain. It ignores files that cannot
// be read: connecting reports these.
func (o Options) Secrets() redact.Secrets {
	words := []string{o.Token, o.Password}
	for server := range strings.SplitSeq(o.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil || u.User == nil {
			continue
		}
		if password, ok := u.User.Password(); ok {
			words = append(words, password)
		} else {
			words = append(words, u.User.Username()) // a token
		}
	}
	for _, file := range []string{o.CredsFile, o.NkeyFile} {
		text, err := secretfile.Read(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-") { // not a heading
				words = append(words, line)
			}
		}
	}
	return redact.New(words...)
}
