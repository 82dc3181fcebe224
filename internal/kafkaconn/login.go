package kafkaconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/oauthtoken"
	"ndrbridge/internal/redact"
)

// SASL holds the settings of SASL authentication. For SCRAM, username and password are
// normalized with SASLprep (RFC 4013).
type SASL struct {
	Mechanism string // plain, scram-sha-256, scram-sha-512, oauthbearer or aws_msk_iam
	Username  string
	Password  string
	OAuth     *oauthtoken.Grant // of oauthbearer
	TLS       *tls.Config       // for the token endpoint of OAuth; nil: the default
	Region    string            // of aws_msk_iam
}

// Login is a validated SASL. It implements sasl.Mechanism, and is safe for concurrent use.
type Login struct {
	SASL
	name string // of the mechanism in the protocol
	// start returns the mechanism of a connection: SCRAM keeps a key for each salt
	// that a broker sends.
	start   func() (sasl.Mechanism, error)
	secrets redact.Secrets
	issued  atomic.Pointer[redact.Secrets] // the secrets obtained last; nil: none
}

// NewLogin validates s and returns its Login. The error contains no secret.
func NewLogin(s SASL) (*Login, error) {
	l := &Login{SASL: s, secrets: redact.New(s.Password)}
	l.issued.Store(&redact.Secrets{})
	hashes := map[string]scram.Algorithm{"scram-sha-256": scram.SHA256, "scram-sha-512": scram.SHA512}
	var m sasl.Mechanism
	var err error
	switch hash := hashes[s.Mechanism]; {
	case s.Mechanism == "oauthbearer" && s.OAuth != nil:
		l.Username, l.secrets = s.OAuth.ClientID, redact.New(s.OAuth.Secrets()...)
		m = newBearer(l)
	case s.Mechanism == "aws_msk_iam" && s.Region != "":
		l.Username = "the AWS identity"
		if m, err = newIAM(s.Region, l); err != nil {
			return nil, err
		}
	case s.Username == "" || s.Password == "":
		return nil, errors.New("sasl: username and password must not be empty")
	case s.Mechanism == "plain":
		m = plain.Mechanism{Username: s.Username, Password: s.Password}
	case hash != nil:
		l.start = func() (sasl.Mechanism, error) { return scram.Mechanism(hash, s.Username, s.Password) }
		if m, err = l.start(); err != nil { // it shows characters of the password
			return nil, errors.New("sasl: the username or password has characters that SASLprep (RFC 4013) forbids")
		}
	default:
		return nil, fmt.Errorf("sasl.mechanism: %q is unknown or lacks its settings: use plain, scram-sha-256, scram-sha-512, oauthbearer or aws_msk_iam", s.Mechanism)
	}
	if l.start == nil {
		l.start = func() (sasl.Mechanism, error) { return m, nil }
	}
	l.name = m.Name()
	return l, nil
}

// obtained notes secrets that are used from now on.
func (l *Login) obtained(secrets ...string) {
	hidden := redact.New(secrets...)
	l.issued.Store(&hidden)
}

// Name implements sasl.Mechanism.
func (l *Login) Name() string { return l.name }

// Start implements sasl.Mechanism. An error is a *failure.Error.
func (l *Login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, signInTimeout)
	defer cancel()
	m, err := l.start()
	if err != nil {
		return nil, nil, l.refused(err)
	}
	next, message, err := m.Start(ctx)
	return &session{next, l}, message, l.refused(err)
}

// session is one authentication.
type session struct {
	sasl.StateMachine
	login *Login
}

// iterations matches the iteration count in the first answer of a SCRAM exchange
// (RFC 5802): how often the client must hash the password, which takes time.
var iterations = regexp.MustCompile(`(?:^|,)i=([0-9]+)`)

// maxIterations is far above 16384, the largest count that brokers can be set to.
const maxIterations = 100_000

// Next implements sasl.StateMachine. An error is a *failure.Error.
func (s *session) Next(ctx context.Context, challenge []byte) (done bool, message []byte, err error) {
	for _, found := range iterations.FindAllSubmatch(challenge, -1) {
		if n, err := strconv.Atoi(string(found[1])); err != nil || n > maxIterations {
			return false, nil, s.login.refused(fmt.Errorf("the broker asks for %s iterations; the limit is %d", found[1], maxIterations))
		}
	}
	done, message, err = s.StateMachine.Next(ctx, challenge)
	return done, message, s.login.refused(err)
}

// refused returns the error of an authentication that the mechanism refuses to continue;
// nil if err is.
func (l *Login) refused(err error) error {
	if err == nil {
		return nil
	}
	if classified, ok := errors.AsType[*failure.Error](err); ok {
		classified.Err = l.HideError(classified.Err)
		return classified
	}
	return failure.Advise(failure.Halted, checkSASL, fmt.Errorf("%s: %s", l.tried(), l.Hide(err.Error())))
}

func (l *Login) tried() string { return "SASL authentication of " + l.Username }

// Hide removes the secrets from a text of a broker. l may be nil.
func (l *Login) Hide(text string) string {
	if l == nil {
		return text
	}
	return l.secrets.Hide(l.issued.Load().Hide(text))
}

// HideError removes the secrets from an error that shows a text of a broker, such as an
// address or a certificate. l may be nil.
func (l *Login) HideError(err error) error {
	if l == nil {
		return err
	}
	return l.secrets.HideError(l.issued.Load().HideError(err))
}
