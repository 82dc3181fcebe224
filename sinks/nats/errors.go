package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/failure"
)

// errorOf returns err if it is classified, otherwise the classified error of a failed connection
// or request. Because that may quote the server, only its redacted text is kept.
func (s *Sink) errorOf(ctx context.Context, err error) *failure.Error {
	if known, ok := errors.AsType[*failure.Error](err); ok {
		return known
	}
	tried := "NATS server " + s.servers()
	if ctx.Err() != nil {
		return failure.Unavailable(failure.ScopeTarget, "%s: %w", tried, ctx.Err())
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		failed := errorOfCode(tried, api, s.secrets.Hide)
		if failed.Class == failure.Rejected { // only the answer to a publish is about events
			failed.Class = failure.Transient
		}
		failed.Scope = failure.ScopeTarget
		return failed
	}
	if e := failure.Explain(err, failure.Peer{Address: s.servers(), Key: "url", Hide: s.secrets.Hide}); e != nil {
		return e.Classified(tried)
	}
	text := s.secrets.Hide(err.Error())
	if advice := adviceOn(err); advice != "" {
		return advise(advice, "%s: %s", tried, text)
	}
	return failure.Unavailable(failure.ScopeTarget, "%s: %s", tried, text)
}

// adviceOn returns advice for an error that halts the sink, "" for any other error.
func adviceOn(err error) string {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case is(nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired, nats.ErrNkeysNotSupported),
		// The library does not map all errors of the server during sign-in.
		strings.HasSuffix(strings.ToLower(err.Error()), nats.AUTHENTICATION_EXPIRED_ERR),
		strings.HasSuffix(strings.ToLower(err.Error()), nats.AUTHENTICATION_REVOKED_ERR):
		return "check creds_file, nkey_file, token_file, username and password_file"
	case is(nats.ErrPermissionViolation):
		return "allow the user to publish to the subject and to subscribe to _INBOX.>"
	case is(nats.ErrSecureConnWanted):
		return "the server has no TLS on this port: use nats:// in url and remove tls, or configure TLS on the server"
	case is(nats.ErrSecureConnRequired):
		return "the server requires TLS: use tls:// in url"
	case is(nats.ErrNoInfoReceived):
		return "check host and port in url: is it the port for NATS clients?"
	case is(nats.ErrHeadersNotSupported):
		return "the server is too old, or headers are disabled"
	}
	// In TLS 1.3, a server rejects a certificate after the client's handshake, and may
	// have closed the connection before its alert is read.
	if is(nats.ErrTLS) && is(io.EOF, syscall.EPIPE, syscall.ECONNRESET) {
		return "the server closed the connection right after the handshake: does it require a client certificate (tls.cert_file)?"
	}
	return ""
}

// servers returns the addresses without user and password.
func (s *Sink) servers() string {
	var hosts []string
	for server := range strings.SplitSeq(s.options.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(server)); err == nil {
			hosts = append(hosts, u.Host)
		}
	}
	return strings.Join(hosts, ", ")
}

// codeStoreFailed means that the stream is full and does not discard, or that its disk failed.
const codeStoreFailed = 10077

// tooLargeToStore is the only description of codeStoreFailed for which the message is at
// fault.
const tooLargeToStore = "message too large"

// shortages holds the codes of a server without memory or disk for messages. Others that say
// nothing about the message have status 503.
var shortages = []jetstream.ErrorCode{10028, 10047}

// verdict is the meaning of a JetStream error code.
type verdict struct {
	class  failure.Class
	advice string // may be empty
}

const (
	checkStreamAndSubject = "check stream and subject"
	createByHand          = "the account does not allow this sink to create it: create it with `nats stream add`, or check the account's limits"
	useJetStream          = "enable JetStream, or leave stream empty for core NATS"
)

// verdicts holds the error codes that are not transient or need advice; some have no name in the
// client library (see the server's errors.json). Any other code is unknown, belongs to requests
// that a sink does not send (consumers, mirrors, batches, schedules), or reports a shortage of
// servers, memory, disk or the account's quota.
var verdicts = map[jetstream.ErrorCode]verdict{
	jetstream.JSErrCodeStreamMessageExceedsMaximum: {failure.Rejected, "the stream's max_msg_size is lower"},
	10097: {failure.Rejected, ""}, // the header is too large

	10167:           {failure.Throttled, ""}, // too many requests
	codeStoreFailed: {failure.Transient, "if the stream is full and set to discard new messages, raise its limits, or let it discard old ones"},

	jetstream.JSErrCodeBadRequest:                    {failure.Halted, ""},
	jetstream.JSErrCodeStreamNotFound:                {failure.Halted, "set create_stream: true, or create it with `nats stream add`"},
	jetstream.JSErrCodeStreamNameInUse:               {failure.Halted, "it exists with other settings"},
	jetstream.JSErrCodeJetStreamNotEnabled:           {failure.Halted, useJetStream},
	jetstream.JSErrCodeJetStreamNotEnabledForAccount: {failure.Halted, useJetStream},
	10035: {failure.Halted, useJetStream},          // there is no account
	10027: {failure.Halted, createByHand},          // too many streams
	10052: {failure.Halted, createByHand},          // an invalid configuration
	10113: {failure.Halted, createByHand},          // the account requires max_bytes
	10120: {failure.Halted, createByHand},          // the account has no limits
	10122: {failure.Halted, createByHand},          // above the account's max_stream_bytes
	10065: {failure.Halted, checkStreamAndSubject}, // the subjects of another stream overlap
	10060: {failure.Halted, checkStreamAndSubject}, // Nats-Expected-Stream names another stream
	10109: {failure.Halted, checkStreamAndSubject}, // the stream is sealed
	10169: {failure.Halted, checkStreamAndSubject}, // the stream holds counters, not messages
}

// errorOfCode returns the classified error of a JetStream answer. hide redacts its text;
// tried names the attempt.
func errorOfCode(tried string, e *jetstream.APIError, hide func(string) string) *failure.Error {
	v, ok := verdicts[e.ErrorCode]
	switch {
	case !ok:
		v.class = failure.Transient
	case e.ErrorCode == codeStoreFailed && e.Description == tooLargeToStore:
		v = verdict{class: failure.Rejected}
	}
	text := fmt.Sprintf("%s: [%d] %s", tried, e.ErrorCode, hide(e.Description))
	failed := failure.Advise(v.class, v.advice, errors.New(text))
	if e.Code == http.StatusServiceUnavailable || slices.Contains(shortages, e.ErrorCode) {
		failed.Scope = failure.ScopeTarget
	}
	return failed
}

// errNotAnAnswer is returned for a message that is not an acknowledgement: other
// subscribers of the subject may answer, too.
var errNotAnAnswer = errors.New("not an acknowledgement")

// errNoStream is returned if no stream stored the message.
var errNoStream = errors.New("no stream has the subject")

// readAck returns nil if ack acknowledges that the stream has stored the message, now or
// earlier. It returns errNotAnAnswer, errNoStream or a *failure.Error.
func readAck(stream string, ack *nats.Msg, hide func(string) string) error {
	if len(ack.Data) == 0 && ack.Header.Get("Status") == "503" {
		return errNoStream
	}
	number, usual := bytes.CutPrefix(ack.Data, []byte(`{"stream":"`+stream+`","seq":`))
	if usual && len(number) > 0 && '1' <= number[0] && number[0] <= '9' {
		return nil // without the cost of a parser
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
		return failure.Errorf(failure.Halted, "stream %s: the subject belongs to stream %s (check stream and subject)", stream, hide(answer.Stream))
	}
	return nil
}
