// Package signature signs webhook requests as Standard Webhooks 1.0.0 says, by its
// symmetric scheme v1: HMAC-SHA256.
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

// The header fields of a signed request, in the form that http.Header keeps them.
const (
	IDField        = "Webhook-Id"
	TimestampField = "Webhook-Timestamp"
	SignatureField = "Webhook-Signature"
)

// Fields are the names of all of them.
func Fields() []string { return []string{IDField, TimestampField, SignatureField} }

// Key is a secret that sender and receiver share. No way of printing it shows it.
type Key struct{ secret *[]byte }

// ParseKey reads a secret as it is given out: whsec_, which may be missing, and 24
// to 64 bytes in base64. Blanks around it do not count. The error does not show it.
func ParseKey(text string) (Key, error) {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), "whsec_"))
	if err != nil {
		return Key{}, errors.New("is not whsec_ and base64")
	}
	const least, most = 24, 64
	if len(secret) < least || len(secret) > most {
		return Key{}, fmt.Errorf("is %d bytes long when decoded; it must be %d to %d", len(secret), least, most)
	}
	return Key{&secret}, nil
}

// Set puts the three fields into header. The id names the message: it is the same
// whenever the message is sent again, and has no full stop. The time is that of the
// attempt. Each key gives a signature, so that a receiver that knows one of them
// accepts: a secret is changed by signing with the old and the new one for a while.
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
