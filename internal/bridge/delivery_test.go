package bridge_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ndrbridge/test/ledger"
	"ndrbridge/transform"
)

func TestASinkFollowsItsConfiguration(t *testing.T) {
	_, url := startAppliance(t, 40)
	book := ledger.New()
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Errorf("a body of 2 KB is not compressed: %v", err)
			return
		}
		text, err := io.ReadAll(body)
		if err != nil {
			return
		}
		e, err := transform.Parse(text)
		if err != nil {
			t.Errorf("%v: %s", err, text)
			return
		}
		for _, field := range []string{`"description"`, `"hostname"`} {
			if strings.Contains(string(text), field) {
				t.Errorf("event %s holds %s", e.ID, field)
			}
		}
		if !strings.Contains(string(text), `"title"`) {
			t.Errorf("event %s lacks its title", e.ID)
		}
		book.Receive("soc", e)
	}))
	t.Cleanup(hook.Close)
	sink := webhookSink("soc", hook.URL)
	sink = strings.Replace(sink, "webhook: {", "redact: [detection.description, detection.participants.hostname], webhook: {gzip: true, ", 1)
	run(t, configuration(t, url, sink))
	await(t, "all detections", func() bool { return book.Received("soc") == 40 })
}
