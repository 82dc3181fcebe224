package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"

	"ndrbridge/internal/redact"
	"ndrbridge/sinks"
)

// SASL authenticates connections. For SCRAM, username and password are
// normalised as RFC 4013 (SASLprep) says.
type SASL struct {
	Mechanism string // plain, scram-sha-256 or scram-sha-512
	Username  string
	Password  string
}

// Login is a SASL that was checked. It is safe for concurrent use.
type Login struct {
	SASL
	name    string // of the mechanism, as brokers know it
	hash    scram.HashGeneratorFcn
	secrets redact.Secrets
}

// NewLogin checks s. The error says what is wrong with it, and holds no secret.
func NewLogin(s SASL) (*Login, error) {
	l := &Login{SASL: s, secrets: redact.New(s.Password)}
	switch s.Mechanism {
	case "plain":
		l.name = "PLAIN"
		return l, nil
	case "scram-sha-256":
		l.name, l.hash = "SCRAM-SHA-256", scram.SHA256
	case "scram-sha-512":
		l.name, l.hash = "SCRAM-SHA-512", scram.SHA512
	default:
		return nil, fmt.Errorf("sasl.mechanism: %q is none of plain, scram-sha-256, scram-sha-512", s.Mechanism)
	}
	if _, err := l.hash.NewClient(s.Username, s.Password, ""); err != nil {
		// The library's error shows characters of the password.
		return nil, errors.New("sasl: the username or password has characters that SASLprep (RFC 4013) forbids")
	}
	return l, nil
}

// Name is the mechanism's, as brokers know it.
func (l *Login) Name() string { return l.name }

// Hide takes the password out of a text.
func (l *Login) Hide(text string) string { return l.secrets.Hide(text) }

// authenticate runs the SASL exchange on a new connection. What either side
// refuses is Halted.
func (l *Login) authenticate(ctx context.Context, c *Conn) error {
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = l.name
	answer, err := c.Exchange(ctx, handshake)
	if err != nil {
		return err
	}
	if code := answer.(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
		return ErrorOfCode(code, "", "SASL handshake for "+l.name)
	}
	if l.hash == nil {
		_, err := l.exchange(ctx, c, "\x00"+l.Username+"\x00"+l.Password)
		return err
	}
	client, err := l.hash.NewClient(l.Username, l.Password, "")
	if err != nil {
		return l.refuse(err)
	}
	conversation := client.NewConversation()
	challenge := ""
	for !conversation.Done() {
		if err := checkIterations(challenge); err != nil {
			return l.refuse(err)
		}
		message, err := conversation.Step(challenge)
		if err != nil {
			return l.refuse(err)
		}
		if conversation.Done() {
			break
		}
		if challenge, err = l.exchange(ctx, c, message); err != nil {
			return err
		}
	}
	return nil
}

func (l *Login) refuse(err error) error {
	return advise(sinks.Halted, checkSASL, fmt.Errorf("SASL authentication of %s: %s", l.Username, l.Hide(err.Error())))
}

// iterations is in the first answer of a SCRAM exchange (RFC 5802): how often the
// password is hashed, for as long as that takes.
var iterations = regexp.MustCompile(`(?:^|,)i=([0-9]+)`)

// maxIterations is far above the 16384 that brokers allow themselves to be set to.
const maxIterations = 100_000

func checkIterations(challenge string) error {
	for _, found := range iterations.FindAllStringSubmatch(challenge, -1) {
		if n, err := strconv.Atoi(found[1]); err != nil || n > maxIterations {
			return fmt.Errorf("the broker asks for %s iterations, and at most %d are made", found[1], maxIterations)
		}
	}
	return nil
}

// exchange returns the broker's answer to a message of the mechanism.
func (l *Login) exchange(ctx context.Context, c *Conn, message string) (string, error) {
	tried := "SASL authentication of " + l.Username
	request := kmsg.NewPtrSASLAuthenticateRequest()
	request.SASLAuthBytes = []byte(message)
	answer, err := c.Exchange(ctx, request)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// Some brokers refuse a password by hanging up.
		return "", advise(sinks.Halted, checkSASL, fmt.Errorf("%s: the broker hung up", tried))
	}
	if err != nil {
		return "", err
	}
	response := answer.(*kmsg.SASLAuthenticateResponse)
	if response.ErrorCode != 0 {
		said := ""
		if response.ErrorMessage != nil {
			said = l.Hide(*response.ErrorMessage)
		}
		return "", ErrorOfCode(response.ErrorCode, said, tried)
	}
	return string(response.SASLAuthBytes), nil
}
