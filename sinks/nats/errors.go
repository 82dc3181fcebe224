package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"syscall"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/natswire"
	"ndrbridge/sinks"
)

// errorOf makes the error of a connection or a request that failed. Of err, which
// may quote the server, it keeps the redacted text.
func (s *Sink) errorOf(ctx context.Context, err error) *sinks.Error {
	tried := "NATS server " + s.servers()
	if ctx.Err() != nil {
		return sinks.Errorf(sinks.Transient, "%s: %w", tried, ctx.Err())
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return errorOfCode(tried, api, s.secrets.Hide)
	}
	if errors.Is(err, nats.ErrNoServers) {
		return sinks.Errorf(sinks.Transient, "%s: no server takes connections", tried)
	}
	said := s.secrets.Hide(err.Error())
	if advice := adviceOn(err); advice != "" {
		return advise(advice, "%s: %s", tried, said)
	}
	return sinks.Errorf(sinks.Transient, "%s: %s", tried, said)
}

// adviceOn says what to do about an error that is a halt; empty: it is none.
func adviceOn(err error) string {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case is(nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired, nats.ErrNkeysNotSupported),
		// What the server says while it connects, the library does not always
		// know again.
		strings.HasSuffix(strings.ToLower(err.Error()), nats.AUTHENTICATION_EXPIRED_ERR),
		strings.HasSuffix(strings.ToLower(err.Error()), nats.AUTHENTICATION_REVOKED_ERR):
		return "see creds_file, nkey_file, token_file, username and password_file"
	case is(nats.ErrPermissionViolation):
		return "the user needs to publish to the subject, and to subscribe to _INBOX.>"
	case is(nats.ErrSecureConnWanted):
		return "the server has no TLS on this port: use nats:// in url and take tls out, or set TLS up at the server"
	case is(nats.ErrSecureConnRequired):
		return "the server requires TLS: use tls:// in url"
	case is(natswire.ErrHTTP, natswire.ErrTLS):
		return "check host and port in url: is it the port for NATS clients?"
	case is(nats.ErrHeadersNotSupported):
		return "the server is too old, or has headers switched off"
	}
	if advice := sinks.TLSAdvice(err); advice != "" {
		return advice
	}
	// In TLS 1.3 a server refuses a certificate after the client's handshake, and
	// may have hung up before its reason is read.
	if is(nats.ErrTLS) && is(io.EOF, syscall.EPIPE, syscall.ECONNRESET) {
		return "the server hung up right after the handshake: does it want a certificate, tls.cert_file?"
	}
	return ""
}

// servers are the addresses without what may stand in front of them: a user and
// a password.
func (s *Sink) servers() string {
	var hosts []string
	for server := range strings.SplitSeq(s.options.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(server)); err == nil {
			hosts = append(hosts, u.Host)
		}
	}
	return strings.Join(hosts, ", ")
}

// Error codes of JetStream that the client has no names for (the server's
// errors.json).
const (
	codeNoAccount        = 10035
	codeTooManyStreams   = 10027
	codeInvalidConfig    = 10052
	codeStreamNotMatch   = 10060 // Nats-Expected-Stream names another
	codeSubjectOverlap   = 10065
	codeStoreFailed      = 10077 // the stream is full and does not discard, or its disk fails
	codeHeaderTooLarge   = 10097
	codeStreamSealed     = 10109
	codeMaxBytesRequired = 10113
	codeNoLimits         = 10120
	codeMaxStreamBytes   = 10122
	codeTooManyRequests  = 10167
	codeCounterMissing   = 10169 // the stream holds counters, not messages
)

// tooLargeToStore is the one description with which codeStoreFailed is about the
// message.
const tooLargeToStore = "message too large"

// verdict is what an error code of JetStream means to a sink.
type verdict struct {
	class  sinks.Class
	advice string // what a person can do; may be empty
}

const (
	seeStream    = "see stream and subject"
	makeByHand   = "the account does not let this sink make it: make it with `nats stream add`, or see the account's limits"
	useJetStream = "enable JetStream, or leave stream empty for core NATS"
)

// verdicts holds the codes that have more to say than that they may pass by
// themselves. What is not among them is unknown, or belongs to what a sink does
// not ask for (consumers, mirrors, batches, schedules), or says that servers,
// memory, disk or the account's share are short of something.
var verdicts = map[jetstream.ErrorCode]verdict{
	jetstream.JSErrCodeStreamMessageExceedsMaximum: {sinks.Rejected, "the stream's max_msg_size is lower"},
	codeHeaderTooLarge: {sinks.Rejected, ""},

	codeTooManyRequests: {sinks.Throttled, ""},
	codeStoreFailed:     {sinks.Transient, "if the stream is full and set to refuse what is new, raise its limits, or let it discard what is old"},

	jetstream.JSErrCodeBadRequest:                    {sinks.Halted, ""},
	jetstream.JSErrCodeStreamNotFound:                {sinks.Halted, "set create_stream: true, or make it with `nats stream add`"},
	jetstream.JSErrCodeStreamNameInUse:               {sinks.Halted, "it exists with other settings"},
	jetstream.JSErrCodeJetStreamNotEnabled:           {sinks.Halted, useJetStream},
	jetstream.JSErrCodeJetStreamNotEnabledForAccount: {sinks.Halted, useJetStream},
	codeNoAccount:        {sinks.Halted, useJetStream},
	codeTooManyStreams:   {sinks.Halted, makeByHand},
	codeInvalidConfig:    {sinks.Halted, makeByHand},
	codeMaxBytesRequired: {sinks.Halted, makeByHand},
	codeNoLimits:         {sinks.Halted, makeByHand},
	codeMaxStreamBytes:   {sinks.Halted, makeByHand},
	codeSubjectOverlap:   {sinks.Halted, seeStream},
	codeStreamNotMatch:   {sinks.Halted, seeStream},
	codeStreamSealed:     {sinks.Halted, seeStream},
	codeCounterMissing:   {sinks.Halted, seeStream},
}

// errorOfCode makes the error of JetStream's answer. hide takes secrets out of its text.
func errorOfCode(tried string, e *jetstream.APIError, hide func(string) string) *sinks.Error {
	v, ok := verdicts[e.ErrorCode]
	switch {
	case !ok:
		v.class = sinks.Transient
	case e.ErrorCode == codeStoreFailed && e.Description == tooLargeToStore:
		v = verdict{class: sinks.Rejected}
	}
	text := fmt.Sprintf("%s: [%d] %s", tried, e.ErrorCode, hide(e.Description))
	return &sinks.Error{Class: v.class, Err: &sinks.Advised{Err: errors.New(text), To: v.advice}}
}

// errNotAnAnswer says that a message is no acknowledgement: somebody else who is
// subscribed to the subject may answer too.
var errNotAnAnswer = errors.New("not an acknowledgement")

// errNoStream says that no stream took the message.
var errNoStream = errors.New("no stream takes the subject")

// readAck returns nil for the acknowledgement of a message that the stream
// stores, now or since before. Other errors than errNotAnAnswer and errNoStream
// are *sinks.Error.
func readAck(stream string, ack *nats.Msg, hide func(string) string) error {
	if len(ack.Data) == 0 && ack.Header.Get("Status") == "503" {
		return errNoStream
	}
	if plainAck(stream, ack.Data) {
		return nil
	}
	var answer struct {
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
		Error  *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(ack.Data, &answer); {
	case err != nil || answer.Error == nil && answer.Seq == 0:
		return errNotAnAnswer
	case answer.Error != nil:
		return errorOfCode("stream "+stream, answer.Error, hide)
	case answer.Stream != stream:
		return sinks.Errorf(sinks.Halted, "stream %s: the subject belongs to stream %s (see stream and subject)", stream, hide(answer.Stream))
	}
	return nil
}

// plainAck knows the usual acknowledgement, which is not worth a parser. That of
// a duplicate lacks the space. What it does not know may still be one.
func plainAck(stream string, data []byte) bool {
	data, begins := bytes.CutPrefix(data, []byte(`{"stream":"`))
	data, named := bytes.CutPrefix(data, []byte(stream))
	data, ends := bytes.CutPrefix(data, []byte(`",`))
	data, numbered := bytes.CutPrefix(bytes.TrimPrefix(data, []byte(" ")), []byte(`"seq":`))
	return begins && named && ends && numbered && len(data) > 0 && '1' <= data[0] && data[0] <= '9'
}
