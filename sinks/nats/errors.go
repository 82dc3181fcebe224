package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

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
		return errorOfCode(tried, api)
	}
	if errors.Is(err, nats.ErrNoServers) {
		return sinks.Errorf(sinks.Transient, "%s: no server takes connections", tried)
	}
	said := s.secrets.Hide(err.Error())
	if advice := adviceOn(err); advice != "" {
		return sinks.Errorf(sinks.Halted, "%s: %s (%s)", tried, said, advice)
	}
	return sinks.Errorf(sinks.Transient, "%s: %s", tried, said)
}

// adviceOn says what to do about an error that is a halt; empty: it is none.
func adviceOn(err error) string {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case is(nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired, nats.ErrNkeysNotSupported):
		return "see creds_file, nkey_file, token_file, username and password_file"
	case is(nats.ErrPermissionViolation):
		return "the user needs to publish to the subject, and to subscribe to _INBOX.>"
	case is(nats.ErrSecureConnRequired, nats.ErrSecureConnWanted):
		return "only one side wants TLS: see tls and url"
	case is(fs.ErrNotExist, fs.ErrPermission),
		is(nkeys.ErrNoSeedFound, nkeys.ErrInvalidNkeySeed, nkeys.ErrInvalidSeed, nkeys.ErrInvalidSeedLen),
		is(nkeys.ErrInvalidEncoding, nkeys.ErrInvalidChecksum, nkeys.ErrInvalidPrefixByte):
		return "see creds_file"
	case is(nats.ErrHeadersNotSupported):
		return "the server is too old, or has headers switched off"
	}
	return sinks.TLSAdvice(err)
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

func errNkeyFile(file string, err error) *sinks.Error {
	// The library's error may hold what is in the file.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return sinks.Errorf(sinks.Halted, "nkey_file: %w", err)
	}
	return sinks.Errorf(sinks.Halted, "nkey_file: %s holds no seed of an nkey", file)
}

// Error codes of JetStream that the client has no names for.
const (
	codeStreamNotMatch = 10060 // Nats-Expected-Stream names another
	codeStoreFailed    = 10077 // the stream is full and does not discard
	codeHeaderTooLarge = 10097
	codeStreamSealed   = 10109
)

// errorOfCode classes what JetStream refuses. What is unknown, as well as a
// stream, an account or a disk that is full, may pass by itself.
func errorOfCode(tried string, e *jetstream.APIError) *sinks.Error {
	class, advice := sinks.Transient, ""
	switch e.ErrorCode {
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		class, advice = sinks.Rejected, "the stream's max_msg_size is lower"
	case codeHeaderTooLarge:
		class = sinks.Rejected
	case codeStoreFailed:
		advice = "the stream is full and set to refuse what is new: raise its limits, or let it discard what is old"
	case jetstream.JSErrCodeStreamNotFound:
		class, advice = sinks.Halted, "set create_stream: true, or make it with `nats stream add`"
	case jetstream.JSErrCodeStreamNameInUse:
		class, advice = sinks.Halted, "it exists with other settings"
	case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		class, advice = sinks.Halted, "enable JetStream, or leave stream empty for core NATS"
	case codeStreamNotMatch, codeStreamSealed:
		class, advice = sinks.Halted, "see stream and subject"
	case jetstream.JSErrCodeBadRequest:
		class = sinks.Halted
	}
	text := fmt.Sprintf("%s: [%d] %s", tried, e.ErrorCode, e.Description)
	if advice != "" {
		text += " (" + advice + ")"
	}
	return &sinks.Error{Class: class, Err: errors.New(text)}
}

// errNotAnAnswer says that a message is no acknowledgement: somebody else who is
// subscribed to the subject may answer too.
var errNotAnAnswer = errors.New("not an acknowledgement")

// errNoStream says that no stream took the message.
var errNoStream = errors.New("no stream takes the subject")

// readAck returns nil for the acknowledgement of a message that the stream
// stores, now or since before. Other errors than errNotAnAnswer and errNoStream
// are *sinks.Error.
func readAck(stream string, ack *nats.Msg) error {
	if len(ack.Data) == 0 && ack.Header.Get("Status") == "503" {
		return errNoStream
	}
	// The usual answer begins so, and is not worth a parser. That of a duplicate
	// lacks the space.
	if rest, ok := bytes.CutPrefix(ack.Data, []byte(`{"stream":"`)); ok {
		rest, ok = bytes.CutPrefix(rest, []byte(stream))
		if ok && (bytes.HasPrefix(rest, []byte(`", "seq":`)) || bytes.HasPrefix(rest, []byte(`","seq":`))) {
			return nil
		}
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
		return errorOfCode("stream "+stream, answer.Error)
	case answer.Stream != stream:
		return sinks.Errorf(sinks.Halted, "stream %s: the subject belongs to stream %s (see stream and subject)", stream, answer.Stream)
	}
	return nil
}
