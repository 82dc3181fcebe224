package kafka

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"hash"
	"io"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"

	"ndrbridge/sinks"
)

// mechanisms are the names that options use, with those of the protocol; hash is
// nil for PLAIN.
var mechanisms = map[string]struct {
	name string
	hash func() hash.Hash
}{
	"plain":         {"PLAIN", nil},
	"scram-sha-256": {"SCRAM-SHA-256", sha256.New},
	"scram-sha-512": {"SCRAM-SHA-512", sha512.New},
}

// authenticate runs the SASL exchange on a new connection. What the broker
// refuses is Halted.
func (s *SASL) authenticate(ctx context.Context, conn *protocol.Conn) error {
	mechanism := mechanisms[s.Mechanism]
	answer, err := exchange(ctx, conn, &saslhandshake.Request{Mechanism: mechanism.name})
	if err != nil {
		return err
	}
	if code := answer.(*saslhandshake.Response).ErrorCode; code != 0 {
		return errorOfCode(code, "", "SASL handshake for "+mechanism.name)
	}
	step := func(message []byte) ([]byte, error) {
		answer, err := exchange(ctx, conn, &saslauthenticate.Request{AuthBytes: message})
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			// Some brokers refuse a password by hanging up.
			return nil, sinks.Errorf(sinks.Halted, "SASL authentication of %s: the broker hung up (%s)", s.Username, checkSASL)
		}
		if err != nil {
			return nil, err
		}
		response := answer.(*saslauthenticate.Response)
		if response.ErrorCode != 0 {
			return nil, errorOfCode(response.ErrorCode, response.ErrorMessage, "SASL authentication of "+s.Username)
		}
		return response.AuthBytes, nil
	}

	if mechanism.hash == nil {
		_, err := step([]byte("\x00" + s.Username + "\x00" + s.Password)) // RFC 4616, section 2
		return err
	}
	client := &scram{hash: mechanism.hash, username: s.Username, password: s.Password, nonce: newNonce()}
	challenge, err := step(client.first())
	if err != nil {
		return err
	}
	final, err := client.final(challenge)
	if err != nil {
		return sinks.Errorf(sinks.Halted, "%w (%s)", err, checkSASL)
	}
	signature, err := step(final)
	if err != nil {
		return err
	}
	if err := client.verify(signature); err != nil {
		return sinks.Errorf(sinks.Halted, "%w (%s)", err, checkSASL)
	}
	return nil
}
