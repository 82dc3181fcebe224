package kafkaconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/aws_msk_iam_v2"
	"golang.org/x/oauth2"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/oauthtoken"
)

// bearer is the mechanism OAUTHBEARER. A token is used for new connections until a tenth of
// its lifetime is left, or until a broker refuses it. It is safe for concurrent use.
type bearer struct {
	cache *oauthtoken.Cache
	login *Login       // hides the tokens
	peer  failure.Peer // the token endpoint
}

func newBearer(l *Login) *bearer {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	if l.TLS != nil {
		transport.TLSClientConfig = l.TLS.Clone()
		transport.TLSClientConfig.ServerName = "" // it names the brokers
	}
	grant := *l.OAuth
	peer := failure.Peer{
		Address: finding.HostPort(grant.Endpoint()), Key: "sasl.oauth.token_url", TLS: cmp.Or(transport.TLSClientConfig.Clone(), &tls.Config{}), Hide: l.Hide,
	}
	return &bearer{login: l, peer: peer, cache: oauthtoken.NewCache(func(ctx context.Context) (*oauth2.Token, error) {
		return grant.Request(ctx, transport) // the library reads at most 1 MiB of an answer
	})}
}

// Name implements sasl.Mechanism.
func (b *bearer) Name() string { return "OAUTHBEARER" }

// Start implements sasl.Mechanism. It requests a token if necessary.
func (b *bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.cache.Get(ctx)
	if err == nil {
		b.login.obtained(token.Secret)
		return &bearerSession{b, token}, []byte("n,,\x01auth=Bearer " + token.Secret + "\x01\x01"), nil
	}
	if e := failure.Explain(err, b.peer); e != nil && ctx.Err() == nil {
		return nil, nil, e.Classified("token endpoint")
	}
	text := fmt.Errorf("token endpoint: %s", excerpt(b.login.Hide(err.Error())))
	_, passes := errors.AsType[*url.Error](err)                                // there is no answer
	passes = passes || strings.HasPrefix(err.Error(), "oauth2: cannot fetch ") // its body ends too early
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := answer.Response.StatusCode
		passes = status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
	}
	if passes || ctx.Err() != nil {
		return nil, nil, failure.Unavailable(failure.ScopeTarget, "%w", text)
	}
	return nil, nil, failure.Advise(failure.Halted, "check sasl.oauth", text)
}

// bearerSession is one authentication.
type bearerSession struct {
	bearer *bearer
	token  oauthtoken.Token
}

// Next implements sasl.StateMachine. A broker that refuses the token says why in a challenge.
func (s *bearerSession) Next(_ context.Context, challenge []byte) (done bool, message []byte, err error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	s.bearer.cache.Refused(s.token)
	return false, nil, fmt.Errorf("the broker refuses the token: %s", excerpt(s.bearer.login.Hide(string(challenge))))
}

// newIAM returns the mechanism of Amazon MSK, which signs with the credentials that AWS's
// SDK finds: in the environment, in its files, or as the role of the machine or pod. The SDK
// renews them before they expire.
func newIAM(region string, l *Login) (sasl.Mechanism, error) {
	found, err := config.LoadDefaultConfig(context.Background(), config.WithRegion(region)) // it reads files, and asks nobody
	if err != nil {
		return nil, fmt.Errorf("sasl: the AWS configuration cannot be read: %w", err)
	}
	passing := retry.IsErrorRetryables(retry.DefaultRetryables)
	return &aws_msk_iam_v2.Mechanism{Signer: v4.NewSigner(), Region: region, Credentials: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		c, err := found.Credentials.Retrieve(ctx)
		if err != nil {
			class := failure.Halted
			if ctx.Err() != nil || passing.IsErrorRetryable(err) == aws.TrueTernary {
				class = failure.Transient
			}
			refused := failure.Advise(class, "give the bridge AWS credentials, by the environment, a file or a role", fmt.Errorf("get AWS credentials: %w", err))
			refused.Scope = failure.ScopeTarget
			return c, refused
		}
		l.obtained(c.SecretAccessKey, c.SessionToken)
		return c, nil
	})}, nil
}
