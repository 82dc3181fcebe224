// Package ticketserver has what the stand-ins for ticket systems share.
package ticketserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Answer answers a request with JSON.
func Answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// IsJSON reports whether the body of a request is JSON according to its header.
func IsJSON(r *http.Request) bool {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return media == "application/json"
}

// Decoder returns a decoder of the body of a request, of at most 1 MiB.
func Decoder(w http.ResponseWriter, r *http.Request) *json.Decoder {
	return json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
}

// Notify sends a message about a change, with the fields of header. It returns nil if the
// message is answered with 2xx.
func Notify(ctx context.Context, url string, header map[string]string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("send the message: %w", err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("read the answer to the message: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the message was answered %s: %s", resp.Status, said)
	}
	return nil
}
