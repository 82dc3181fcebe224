package nats

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/redact"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/sinktest"
)

// codes holds the server's error codes that are not plainly transient, and of the others
// the ones that a publisher can get.
var codes = []struct {
	what  string
	class failure.Class
	codes []server.ErrorIdentifier
}{
	{"the event is at fault", failure.Rejected, []server.ErrorIdentifier{
		server.JSStreamMessageExceedsMaximumErr, server.JSStreamHeaderExceedsMaximumErr,
	}},
	{"the stream asks for a wait", failure.Throttled, []server.ErrorIdentifier{server.JSStreamTooManyRequests}},
	{"the stream is missing, or not for these events", failure.Halted, []server.ErrorIdentifier{
		server.JSStreamNotFoundErr, server.JSStreamNotMatchErr, server.JSStreamSealedErr, server.JSMessageIncrMissingErr,
	}},
	{"JetStream is not available", failure.Halted, []server.ErrorIdentifier{
		server.JSNotEnabledErr, server.JSNotEnabledForAccountErr, server.JSNoAccountErr,
	}},
	{"the stream cannot be created", failure.Halted, []server.ErrorIdentifier{
		server.JSStreamNameExistErr, server.JSStreamSubjectOverlapErr, server.JSStreamInvalidConfigF, server.JSMaximumStreamsLimitErr,
		server.JSStreamMaxBytesRequired, server.JSStreamMaxStreamBytesExceeded, server.JSNoLimitsErr, server.JSBadRequestErr,
	}},
	{"the server, stream or account is short of resources or broken", failure.Transient, []server.ErrorIdentifier{
		server.JSStreamStoreFailedF, server.JSInsufficientResourcesErr, server.JSMemoryResourcesExceededErr,
		server.JSStorageResourcesExceededErr, server.JSAccountResourcesExceededErr, server.JSStreamGeneralErrorF,
		server.JSStreamInvalidErr, server.JSStreamOfflineErr, server.JSStreamOfflineReasonErrF, server.JSRaftGeneralErrF,
		server.JSClusterNotAvailErr, server.JSClusterNotActiveErr, server.JSClusterNotLeaderErr, server.JSClusterIncompleteErr,
	}},
}

func TestEveryJetStreamErrorCodeHasAClass(t *testing.T) {
	listed := map[server.ErrorIdentifier]bool{}
	for _, group := range codes {
		for _, code := range group.codes {
			assert.False(t, listed[code], "code", code, "is listed twice")
			listed[code] = true
			answer := fmt.Sprintf(`{"error":{"code":%d,"err_code":%d,"description":"the server's words"},"stream":"NDR","seq":0}`, server.ApiErrors[code].Code, code)
			err := readAck("NDR", &nats.Msg{Data: []byte(answer)}, redact.New("s3same").Hide)
			if class, _ := failure.ClassOf(err); err == nil || class != group.class {
				t.Errorf("%s: code %d is %s: %v", group.what, code, class, err)
				continue
			}
			text := err.Error()
			assert.True(t, strings.HasPrefix(text, fmt.Sprintf("stream NDR: [%d] the server's words", code)), "code", code, err)
		}
	}
	for code, known := range server.ApiErrors {
		err := errorOfCode("stream NDR", &jetstream.APIError{Code: known.Code, ErrorCode: jetstream.ErrorCode(code), Description: known.Description}, strings.Clone)
		assert.True(t, listed[code] || err.Class == failure.Transient, "code", code, known.Description, err.Class, "and not listed")
	}
	for cause, want := range map[error]failure.Class{
		server.ErrMsgTooLarge: failure.Rejected, server.ErrMaxMsgs: failure.Transient, server.ErrMaxBytes: failure.Transient,
		server.ErrMaxMsgsPerSubject: failure.Transient, server.ErrStoreClosed: failure.Transient,
	} {
		failed := server.NewJSStreamStoreFailedError(cause)
		err := errorOfCode("stream NDR", &jetstream.APIError{Code: failed.Code, ErrorCode: jetstream.ErrorCode(failed.ErrCode), Description: failed.Description}, strings.Clone)
		assert.Equal(t, err.Class, want, "a store that failed with", cause)
	}
	err := errorOfCode("stream NDR", &jetstream.APIError{Code: 400, ErrorCode: 19999}, strings.Clone)
	assert.Equal(t, err.Class, failure.Transient, "an unknown code")
}

func TestOnlyThePublishOfAnEventRejectsIt(t *testing.T) {
	s := open(t, Options{URL: "nats://127.0.0.1:1", Subject: "x"})
	err := s.errorOf(t.Context(), &jetstream.APIError{Code: 400, ErrorCode: jetstream.JSErrCodeStreamMessageExceedsMaximum})
	assert.Equal(t, err.Class, failure.Transient, "class", err)
}

func TestReadAck(t *testing.T) {
	for answer, want := range map[string]string{
		`{"stream":"NDR", "seq":1}`:                 "",
		`{"stream":"NDR","seq":1,"duplicate":true}`: "",
		`{"stream":"NDR","domain":"hub","seq":1}`:   "",
		`{"type":"io.nats","seq":7,"stream":"NDR"}`: "",
		`{"stream":"NDR2","seq":1}`:                 "belongs to stream NDR2",
		`{"stream":"NDR","seq":0}`:                  errNotAnAnswer.Error(),
		`{"stream":"NDR`:                            errNotAnAnswer.Error(),
		`thank you`:                                 errNotAnAnswer.Error(),
		``:                                          errNotAnAnswer.Error(),
		`{"error":{"err_code":10077,"description":"disk is full"}}`: "disk is full",
	} {
		err := readAck("NDR", &nats.Msg{Data: []byte(answer)}, strings.Clone)
		assert.True(t, (want != "" || err == nil) && (want == "" || err != nil && strings.Contains(err.Error(), want)), answer, err)
	}
	none := &nats.Msg{Header: nats.Header{"Status": {"503"}}}
	assert.ErrorIs(t, readAck("NDR", none, strings.Clone), errNoStream, "no responders")
}

// scripted is a server that says a line after CONNECT, and another once
// something is published; an empty one: it goes on. After "hangs up" it closes
// the connection without a word.
func scripted(t *testing.T, atConnect, atPublish string) string {
	t.Helper()
	return loopback.Serve(t, func(conn net.Conn) { serve(conn, atConnect, atPublish) })
}

const hangsUp = "hangs up"

func serve(conn net.Conn, atConnect, atPublish string) {
	defer conn.Close()
	fmt.Fprint(conn, "INFO {\"server_id\":\"x\",\"version\":\"2.12.0\",\"max_payload\":100000,\"headers\":true}\r\n")
	lines := bufio.NewReader(conn)
	say := func(line string) (done bool) {
		if line != "" && line != hangsUp {
			fmt.Fprintf(conn, "%s\r\n", line)
		}
		return line == hangsUp || strings.HasPrefix(line, "-ERR") && !strings.Contains(line, "Permissions")
	}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		switch command, _, _ := strings.Cut(strings.TrimSpace(line), " "); command {
		case "CONNECT":
			if say(atConnect) {
				return
			}
		case "PING":
			fmt.Fprint(conn, "PONG\r\n")
		case "HPUB":
			if say(atPublish) {
				// Unread data would turn the close into a reset, which may overtake the line.
				_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				_, _ = lines.WriteTo(io.Discard)
				return
			}
		}
	}
}

func TestServerErrors(t *testing.T) {
	for _, test := range []struct {
		what, line string
		want       failure.Class
	}{
		{"unknown credentials", "-ERR 'Authorization Violation'", failure.Halted},
		{"credentials that have expired", "-ERR 'User Authentication Expired'", failure.Halted},
		{"credentials that were revoked", "-ERR 'User Authentication Revoked'", failure.Halted},
		{"an account that has expired", "-ERR 'Account Authentication Expired'", failure.Halted},
		{"a login that took too long", "-ERR 'Authentication Timeout'", failure.Transient},
		{"too many connections", "-ERR 'maximum connections exceeded'", failure.Transient},
		{"too many connections of the account", "-ERR 'maximum account active connections exceeded'", failure.Transient},
		{"a stale connection", "-ERR 'Stale Connection'", failure.Transient},
		{"a slow consumer", "-ERR 'Slow Consumer'", failure.Transient},
		{"a shutdown", "-ERR 'Server Shutdown'", failure.Transient},
		{"a payload above a limit that was lowered meanwhile", "-ERR 'Maximum Payload Violation'", failure.Transient},
		{"an unknown error", "-ERR 'Moon In The Wrong House'", failure.Transient},
		{"nothing at all", hangsUp, failure.Transient},
	} {
		for when, address := range map[string]string{
			"at the connection":     scripted(t, test.line, ""),
			"once it is publishing": scripted(t, "", test.line),
		} {
			for _, stream := range []string{"", "NDR"} {
				t.Run(fmt.Sprintf("%s, %s, with stream %q", test.what, when, stream), func(t *testing.T) {
					t.Parallel()
					sink := open(t, Options{URL: "nats://" + address, Subject: "x", Stream: stream, Timeout: 10 * time.Second})
					class, err := classOf(t, sink, sinktest.Events(3, 3, 0))
					assert.True(t, err != nil && class == test.want && strings.Contains(err.Error(), address), "class", class, err)
				})
			}
		}
	}
	t.Run("a subject that the user may not publish to", func(t *testing.T) {
		for _, stream := range []string{"", "NDR"} {
			sink := open(t, Options{URL: "nats://" + scripted(t, "", `-ERR 'Permissions Violation for Publish to "x"'`), Subject: "x", Stream: stream, Timeout: 10 * time.Second})
			class, err := classOf(t, sink, sinktest.Events(3, 3, 0))
			assert.True(t, err != nil && class == failure.Halted, "stream", stream, "class", class, err)
		}
	})
	t.Run("a server in lame duck mode is used until it stops", func(t *testing.T) {
		sink := open(t, Options{URL: "nats://" + scripted(t, "", `INFO {"server_id":"x","max_payload":100000,"headers":true,"ldm":true}`), Subject: "x"})
		for range 2 {
			assert.NoError(t, sink.Send(t.Context(), sinktest.Events(3, 3, 0)))
		}
	})
}

func TestJetStreamErrorsContainNoSecret(t *testing.T) {
	s := &Sink{options: Options{URL: "nats://127.0.0.1:4222"}, secrets: redact.New("s3same")}
	for name, err := range map[string]error{
		"an acknowledgement": readAck("NDR", &nats.Msg{Data: []byte(`{"error":{"code":400,"err_code":10052,"description":"no s3same here"},"stream":"NDR"}`)}, s.secrets.Hide),
		"another stream":     readAck("NDR", &nats.Msg{Data: []byte(`{"stream":"s3same","seq":1}`)}, s.secrets.Hide),
		"an answer":          s.errorOf(t.Context(), &jetstream.APIError{Code: 400, ErrorCode: 10052, Description: "no s3same here"}),
	} {
		assert.True(t, err != nil && !strings.Contains(err.Error(), "s3same") && strings.Contains(err.Error(), "[redacted]"), name, err)
	}
}
