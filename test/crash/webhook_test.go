package crash

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// startWebhook starts a receiver that records the events that it acknowledges.
func startWebhook(t *testing.T, receive func(sink string, body []byte)) (address string) {
	t.Helper()
	return startStalling(t, new(stall), func(body []byte) { receive(webhookSink, body) })
}

// startStalling starts a receiver that records the events that it acknowledges, and none while it
// stalls.
func startStalling(t *testing.T, stall *stall, receive func(body []byte)) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil { // the body was cut short
			return
		}
		if stall.wait(r.Context()) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		receive(body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
