package webhook

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"ndrbridge/sinks/webhook/signature"
	"ndrbridge/transform"
)

// parseKeys parses the secrets that sign requests.
func parseKeys(secrets []string) ([]signature.Key, error) {
	var keys []signature.Key
	for i, secret := range secrets {
		key, err := signature.ParseKey(secret)
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
	signature.Set(header, messageID(events), time.Now(), body, s.keys)
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
