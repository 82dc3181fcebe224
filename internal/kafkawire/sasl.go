package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/redact"
)

// SASL holds the settings of SASL authentication. For SCRAM, username and password are
// normalized with SASLprep (RFC 4013).
type SASL struct {
	Mechanism string // plain, scram-sha-256 or scram-sha-512
	Username  string
	Password  string
}

// Login is a validated SASL. It is safe for concurrent use.
type Login struct {
	SASL
	name    string // of the mechanism in the protocol
	secrets redact.Secrets
}

// NewLogin validates s and returns its Login. The error contains no secret.
func NewLogin(s SASL) (*Login, error) {
	m, err := s.newMechanism()
	if err != nil {
		return nil, err
	}
	return &Login{SASL: s, name: m.Name(), secrets: redact.New(s.Password)}, nil
}

// newMechanism returns a mechanism for one connection: it keeps a key for each salt that
// the broker sends. The error contains no secret.
func (s SASL) newMechanism() (m sasl.Mechanism, err error) {
	switch s.Mechanism {
	case "plain":
		m = plain.Mechanism{Username: s.Username, Password: s.Password}
	case "scram-sha-256":
		m, err = scram.Mechanism(scram.SHA256, s.Username, s.Password)
	case "scram-sha-512":
		m, err = scram.Mechanism(scram.SHA512, s.Username, s.Password)
	default:
		return nil, fmt.Errorf("sasl.mechanism: unknown %q: use plain, scram-sha-256 or scram-sha-512", s.Mechanism)
	}
	if err != nil { // which shows characters of the password
		return nil, errors.New("sasl: the username or password has characters that SASLprep (RFC 4013) forbids")
	}
	return m, nil
}

// Name returns the name of the mechanism in the protocol.
func (l *Login) Name() string { return l.name }

// Hide removes the password from a text of a broker. l may be nil.
func (l *Login) Hide(text string) string {
	if l == nil {
		return text
	}
	return l.secrets.Hide(text)
}

// hideTexts removes the password from the broker's messages in an answer. l may be nil.
func (l *Login) hideTexts(answer kmsg.Response) {
	hide := func(message *string) {
		if message != nil {
			*message = l.Hide(*message)
		}
	}
	switch answer := answer.(type) {
	case *kmsg.SASLAuthenticateResponse:
		hide(answer.ErrorMessage)
	case *kmsg.CreateTopicsResponse:
		for _, topic := range answer.Topics {
			hide(topic.ErrorMessage)
		}
	case *kmsg.ProduceResponse:
		for _, topic := range answer.Topics {
			for _, partition := range topic.Partitions {
				hide(partition.ErrorMessage)
				for _, record := range partition.ErrorRecords {
					hide(record.ErrorMessage)
				}
			}
		}
	}
}

// authenticate runs the SASL exchange on a new connection. It returns a Halted error if
// either side refuses.
func (l *Login) authenticate(ctx context.Context, c *Conn) error {
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = l.Name()
	answer, err := c.Exchange(ctx, handshake)
	if err != nil {
		return err
	}
	if code := answer.(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
		return ErrorOfCode(code, "", "SASL handshake for "+l.Name())
	}
	mechanism, err := l.newMechanism()
	if err != nil {
		return err
	}
	exchange, message, err := mechanism.Start(ctx)
	for done := false; err == nil && !done; {
		challenge, failed := l.exchange(ctx, c, message)
		if failed != nil {
			return failed
		}
		if err = checkIterations(challenge); err == nil {
			done, message, err = exchange.Next(ctx, challenge)
		}
	}
	if err != nil {
		return failure.Advise(failure.Halted, checkSASL, fmt.Errorf("SASL authentication of %s: %s", l.Username, l.Hide(err.Error())))
	}
	return nil
}

// iterations matches the iteration count in the first answer of a SCRAM exchange
// (RFC 5802): how often the client must hash the password, which takes time.
var iterations = regexp.MustCompile(`(?:^|,)i=([0-9]+)`)

// maxIterations is far above 16384, the largest count that brokers can be set to.
const maxIterations = 100_000

// checkIterations returns an error if challenge asks for more than maxIterations.
func checkIterations(challenge []byte) error {
	for _, found := range iterations.FindAllSubmatch(challenge, -1) {
		if n, err := strconv.Atoi(string(found[1])); err != nil || n > maxIterations {
			return fmt.Errorf("the broker asks for %s iterations; the limit is %d", found[1], maxIterations)
		}
	}
	return nil
}

// exchange sends a message of the mechanism and returns the broker's answer.
func (l *Login) exchange(ctx context.Context, c *Conn, message []byte) ([]byte, error) {
	tried := "SASL authentication of " + l.Username
	request := kmsg.NewPtrSASLAuthenticateRequest()
	request.SASLAuthBytes = message
	answer, err := c.Exchange(ctx, request)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// Some brokers reject a password by closing the connection.
		return nil, failure.Advise(failure.Halted, checkSASL, fmt.Errorf("%s: the broker closed the connection", tried))
	}
	if err != nil {
		return nil, err
	}
	response := answer.(*kmsg.SASLAuthenticateResponse)
	if response.ErrorCode != 0 {
		message := ""
		if response.ErrorMessage != nil {
			message = *response.ErrorMessage
		}
		return nil, ErrorOfCode(response.ErrorCode, message, tried)
	}
	return response.SASLAuthBytes, nil
}
