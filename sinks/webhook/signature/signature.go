// Package signature signs webhook requests according to Standard Webhooks 1.0.0, by
// its symmetric scheme v1, HMAC-SHA256.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The header fields of a signed request, in canonical form.
const (
	IDField        = "Webhook-Id"
	TimestampField = "Webhook-Timestamp"
	SignatureField = "Webhook-Signature"
)

// Fields returns the names of all of them.
func Fields() []string { return []string{IDField, TimestampField, SignatureField} }

// Key is a secret shared by sender and receiver. Formatting a Key never reveals the
// secret.
type Key struct{ secret *[]byte }

// ParseKey parses a secret in its usual form: base64 of 24 to 64 bytes, with an
// optional prefix whsec_. Surrounding white space is ignored. The error does not quote
// the secret.
func ParseKey(text string) (Key, error) {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), "whsec_"))
	if err != nil {
		return Key{}, errors.New("is not valid base64 after the optional whsec_")
	}
	const minBytes, maxBytes = 24, 64
	if len(secret) < minBytes || len(secret) > maxBytes {
		return Key{}, fmt.Errorf("is %d bytes long when decoded; it must be %d to %d", len(secret), minBytes, maxBytes)
	}
	return Key{&secret}, nil
}

// Set sets the three fields in header. The id names the message: it is the same
// whenever the message is sent again, and contains no full stop. at is the time of the
// attempt. There is one signature for each key, and a receiver accepts if it knows one
// of them: to rotate a secret, sign with the old and the new one for a while.
func Set(header http.Header, id string, at time.Time, body []byte, keys []Key) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, *key.secret)
		_, _ = mac.Write([]byte(id + "." + timestamp + "."))
		_, _ = mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	header[IDField] = []string{id}
	header[TimestampField] = []string{timestamp}
	header[SignatureField] = []string{strings.Join(signatures, " ")}
}
