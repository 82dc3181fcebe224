package webhookintake

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Method is how a ticket system authenticates.
type Method string

// The methods.
const (
	// MethodSignature is an HMAC-SHA256 of the body with the secret, written as
	// sha256=<hexadecimal> like in WebSub and Jira.
	MethodSignature Method = "signature"
	// MethodHeader is the secret in a header.
	MethodHeader Method = "header"
	// MethodBasic is a user name and a password (RFC 7617).
	MethodBasic Method = "basic"
)

// Verification describes how requests are verified.
type Verification struct {
	Method Method
	// Header is the name of the header with the signature or the secret.
	Header string
	// Username is the user name of MethodBasic. The password is the secret.
	Username string
	// Secret returns the secret. It is called for each request, so that the secret can
	// be changed.
	Secret func() (string, error)
}

// ErrUnverified means that a request is not authenticated. It is always wrapped, with
// the requirement and without secrets.
var ErrUnverified = errors.New("the sender is not verified")

func (v *Verification) check(header http.Header, body []byte) error {
	secret, err := v.Secret()
	if err != nil {
		return fmt.Errorf("read the secret of the webhook: %w", err)
	}
	if secret == "" {
		return errors.New("the secret of the webhook is empty")
	}
	switch v.Method {
	case MethodSignature:
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		if !equal(strings.ToLower(header.Get(v.Header)), "sha256="+hex.EncodeToString(mac.Sum(nil))) {
			return v.unsigned()
		}
	case MethodBasic:
		scheme, credentials, _ := strings.Cut(header.Get("Authorization"), " ")
		want := base64.StdEncoding.EncodeToString([]byte(v.Username + ":" + secret))
		if !strings.EqualFold(scheme, "Basic") || !equal(strings.TrimLeft(credentials, " "), want) {
			return fmt.Errorf("%w: send the webhook's user name and password as Authorization: Basic", ErrUnverified)
		}
	default:
		if !equal(header.Get(v.Header), secret) {
			return fmt.Errorf("%w: %s must hold the webhook's secret", ErrUnverified, v.Header)
		}
	}
	return nil
}

func (v *Verification) unsigned() error {
	return fmt.Errorf("%w: %s must hold sha256= and the HMAC-SHA256 of the body with the webhook's secret", ErrUnverified, v.Header)
}

// equal compares in constant time.
func equal(a, b string) bool {
	sumA, sumB := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(sumA[:], sumB[:]) == 1
}
