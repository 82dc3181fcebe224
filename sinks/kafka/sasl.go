package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"ndrbridge/redact"
	"ndrbridge/sinks"
)

// SASL authenticates connections. For SCRAM, username and password are
// normalised as RFC 4013 (SASLprep) says.
type SASL struct {
	Mechanism string // plain, scram-sha-256 or scram-sha-512
	Username  string
	Password  string
}

// Client returns what authenticates connections of the library's own. It is safe
// for concurrent use. The error says what is wrong with s, and holds no secret.
func (s SASL) Client() (sasl.Mechanism, error) {
	var mechanism sasl.Mechanism
	var err error
	switch s.Mechanism {
	case "plain":
		mechanism = plain.Mechanism{Username: s.Username, Password: s.Password}
	case "scram-sha-256":
		mechanism, err = scram.Mechanism(scram.SHA256, s.Username, s.Password)
	case "scram-sha-512":
		mechanism, err = scram.Mechanism(scram.SHA512, s.Username, s.Password)
	default:
		return nil, fmt.Errorf("sasl.mechanism: %q is none of plain, scram-sha-256, scram-sha-512", s.Mechanism)
	}
	if err != nil {
		// The library's error tells characters of the password.
		return nil, errors.New("sasl: the username or password has characters that SASLprep (RFC 4013) forbids")
	}
	return mechanism, nil
}

// login is a SASL that was checked. It is safe for concurrent use.
type login struct {
	mechanism sasl.Mechanism
	username  string
	secrets   redact.Secrets
}

func newLogin(s SASL) (*login, error) {
	mechanism, err := s.Client()
	if err != nil {
		return nil, err
	}
	return &login{mechanism: mechanism, username: s.Username, secrets: redact.New(s.Password)}, nil
}

// authenticate runs the SASL exchange on a new connection. What either side
// refuses is Halted.
func (l *login) authenticate(ctx context.Context, conn *protocol.Conn) error {
	answer, err := exchange(ctx, conn, &saslhandshake.Request{Mechanism: l.mechanism.Name()})
	if err != nil {
		return err
	}
	if code := answer.(*saslhandshake.Response).ErrorCode; code != 0 {
		return errorOfCode(code, "", "SASL handshake for "+l.mechanism.Name())
	}
	session, message, err := l.mechanism.Start(ctx)
	for done := false; err == nil && !done; {
		var challenge []byte
		if challenge, err = l.answer(ctx, conn, message); err != nil {
			return err
		}
		done, message, err = session.Next(ctx, challenge)
	}
	if err != nil {
		return advise(sinks.Halted, checkSASL, fmt.Errorf("SASL authentication of %s: %s", l.username, l.secrets.Hide(err.Error())))
	}
	return nil
}

// answer returns the broker's answer to a message of the mechanism.
func (l *login) answer(ctx context.Context, conn *protocol.Conn, message []byte) ([]byte, error) {
	tried := "SASL authentication of " + l.username
	answer, err := exchange(ctx, conn, &saslauthenticate.Request{AuthBytes: message})
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// Some brokers refuse a password by hanging up.
		return nil, advise(sinks.Halted, checkSASL, fmt.Errorf("%s: the broker hung up", tried))
	}
	if err != nil {
		return nil, err
	}
	response := answer.(*saslauthenticate.Response)
	if response.ErrorCode != 0 {
		return nil, errorOfCode(response.ErrorCode, l.secrets.Hide(response.ErrorMessage), tried)
	}
	return response.AuthBytes, nil
}
