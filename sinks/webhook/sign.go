package webhook

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"ndrbridge/transform"
)

// The header fields of a request that is signed according to Standard Webhooks 1.0.0, by its
// symmetric scheme v1, HMAC-SHA256; in canonical form.
const (
	idField        = "Webhook-Id"
	timestampField = "Webhook-Timestamp"
	signatureField = "Webhook-Signature"
)

// SignatureFields returns the names of all of them.
func SignatureFields() []string { return []string{idField, timestampField, signatureField} }

// SignKey is a secret shared by sender and receiver. Formatting a SignKey never reveals the
// secret.
type SignKey struct{ signer *standardwebhooks.Webhook }

// ParseSignKey parses a secret in its usual form: base64 of 24 to 64 bytes, with an
// optional prefix whsec_. Surrounding white space is ignored. The error does not quote
// the secret.
func ParseSignKey(text string) (SignKey, error) {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), "whsec_"))
	if err != nil {
		return SignKey{}, errors.New("is not valid base64 after the optional whsec_")
	}
	const minBytes, maxBytes = 24, 64
	if len(secret) < minBytes || len(secret) > maxBytes {
		return SignKey{}, fmt.Errorf("is %d bytes long when decoded; it must be %d to %d", len(secret), minBytes, maxBytes)
	}
	signer, err := standardwebhooks.NewWebhookRaw(secret)
	return SignKey{signer}, err
}

// setSignatures sets the three fields in header. The id names the message: it is the same
// whenever the message is sent again, and contains no full stop. at is the time of the
// attempt. There is one signature for each key, and a receiver accepts if it knows one
// of them: to rotate a secret, sign with the old and the new one for a while.
func setSignatures(header http.Header, id string, at time.Time, body []byte, keys []SignKey) {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		signatures[i], _ = key.signer.Sign(id, at, body) // it never fails
	}
	header[idField] = []string{id}
	header[timestampField] = []string{strconv.FormatInt(at.Unix(), 10)}
	header[signatureField] = []string{strings.Join(signatures, " ")}
}

// parseKeys parses the secrets that sign requests.
func parseKeys(secrets []string) ([]SignKey, error) {
	var keys []SignKey
	for i, secret := range secrets {
		key, err := ParseSignKey(secret)
		if err != nil {
			return nil, fmt.Errorf("sign: secret %d %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// signed returns the header of a request with the signatures of body, which carries the
// events.
func (s *Sink) signed(header http.Header, events []transform.Event, body []byte) http.Header {
	if len(s.keys) == 0 {
		return header
	}
	header = maps.Clone(header)
	setSignatures(header, messageID(events), time.Now(), body, s.keys)
	return header
}

// messageID derives a message ID from the events. It is the same when they are sent
// again after a failure, but differs when they are replayed, because a replay must not
// be taken for a duplicate.
func messageID(events []transform.Event) string {
	digest := sha256.New()
	var b []byte
	for _, e := range events {
		// The lengths make the concatenation unambiguous.
		b = strconv.AppendInt(b[:0], int64(len(e.Source)), 10)
		b = append(append(b, ':'), e.Source...)
		b = strconv.AppendInt(b, int64(len(e.ID)), 10)
		b = append(append(b, ':'), e.ID...)
		b = strconv.AppendUint(b, e.Redelivery(), 10)
		_, _ = digest.Write(append(b, ';'))
	}
	return "msg_" + base64.RawURLEncoding.EncodeToString(digest.Sum(nil))
}
