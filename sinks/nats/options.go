// Package nats is the sink that publishes to NATS: to a JetStream stream, or
// without one to whoever listens, as CloudEvents' NATS protocol binding says
// (its draft 1.0.3, since 1.0.2 knows no headers).
package nats

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"ndrbridge/internal/redact"
	"ndrbridge/internal/secretfile"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Options say where and how a sink publishes.
type Options struct {
	// URL is the address of a server, nats://, tls://, ws:// or wss://, or of
	// several of one cluster, separated by commas. They are tried in any order, and
	// each has its share of Timeout, so that one that hangs does not hide the others.
	URL string
	// Stream is the JetStream stream that must store the events before they
	// count as delivered. How durable that is follows from the server: with one
	// replica and without sync_interval: always it may lose what it acknowledged
	// in the last two minutes before a power loss.
	//
	// An event whose acknowledgement was lost is sent again. The stream drops it
	// where its duplicate window (two minutes, unless it was made with another)
	// reaches back to the first; else it is there twice.
	//
	// JetStream looks for duplicates among all messages of a stream, whatever their
	// subject. Sinks that share a stream are kept apart by Sink.
	//
	// Empty: core NATS. An event counts as delivered once a server has taken it,
	// and reaches those who are subscribed at that moment.
	Stream string
	// Sink is the name of the sink, the first part of the id by which the stream knows
	// duplicates. Each sink needs its own. A stream requires it.
	Sink string
	// Subject is a sinks.Template. What may not stand in a subject's token
	// becomes "_".
	Subject string
	// CreateStream makes a stream that does not exist, for the subjects that the
	// template can give, without limits, in files, with one replica. A stream that
	// exists is left as it is.
	CreateStream bool

	CredsFile string // user JWT and seed
	NkeyFile  string // seed
	Token     string
	Username  string
	Password  string
	TLS       *tls.Config // nil: TLS only where the server or URL demands it

	// MaxPending bounds the messages on their way that the stream has not
	// acknowledged; their bytes are bounded by the batch that Send is given.
	// 0: 1000. Core NATS does not use it.
	MaxPending int
	// AckTimeout bounds the wait for the next acknowledgement while any is due: a
	// cluster that lost the stream's leader never sends those that it owed. 0: 5 s.
	AckTimeout time.Duration
	// Mode is structured (also when empty) or binary.
	Mode transform.Mode
	// Timeout bounds a Send. 0: 30 s.
	Timeout time.Duration
	// Name is told to the server. Empty: ndrbridge.
	Name string
}

// Sink publishes events. It connects at the first Send, and again at the first
// Send after a failure; nothing is buffered in between.
type Sink struct {
	options Options
	subject sinks.Template
	secrets redact.Secrets // of the last attempt to connect
	conn    *conn          // nil: none
	message message
}

// New checks the options and returns a sink that has not contacted any server.
// The error tells all that is wrong.
func New(o Options) (*Sink, error) {
	schemes := []string{"nats", "tls", "ws", "wss"}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	for i, server := range strings.Split(o.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		// The text of a URL may hold a password: it is not shown.
		if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
			wrong("url: address %d is not scheme://host:port with one of the schemes %s", i+1, strings.Join(schemes, ", "))
		}
	}
	subject, err := sinks.ParseTemplate(o.Subject)
	if err != nil {
		wrong("subject: %w", err)
	} else if filled := subject.Fill("x"); token(filled) != filled {
		wrong("subject: %q has an empty token, a wildcard or white space", o.Subject)
	}
	if strings.ContainsAny(o.Stream, " \t\r\n.*>/\\") {
		wrong("stream: %q has a character that a stream's name may not have", o.Stream)
	}
	if o.Stream != "" && o.Sink == "" {
		wrong("the sink's name is missing, which its messages in a stream need")
	}
	if o.CreateStream && o.Stream == "" {
		wrong("create_stream: stream must name it")
	}
	switch o.Mode {
	case "":
		o.Mode = transform.Structured
	case transform.Structured, transform.Binary:
	default:
		wrong("mode: %q is neither structured nor binary", o.Mode)
	}
	ways := 0
	for _, set := range []bool{o.CredsFile != "", o.NkeyFile != "", o.Token != "", o.Username != ""} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		wrong("only one of creds_file, nkey_file, token_file and username can be used")
	}
	if o.Password != "" && o.Username == "" {
		wrong("password_file: there is no username")
	}
	if o.MaxPending < 0 || o.Timeout < 0 || o.AckTimeout < 0 {
		wrong("max_pending and timeouts must not be negative")
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	o.MaxPending = cmp.Or(o.MaxPending, 1000)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.AckTimeout = cmp.Or(o.AckTimeout, 5*time.Second)
	o.Name = cmp.Or(o.Name, "ndrbridge")
	return &Sink{options: o, subject: subject}, nil
}

// Secrets are the credentials, which no text may show. A file is read as far as it
// can be: that it cannot is told when it is needed.
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
			words = append(words, u.User.Username()) // it is a token
		}
	}
	for _, file := range []string{o.CredsFile, o.NkeyFile} {
		text, err := secretfile.Read(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-") { // a heading
				words = append(words, line)
			}
		}
	}
	return redact.New(words...)
}
