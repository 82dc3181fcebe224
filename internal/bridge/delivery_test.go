package bridge_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"ndrbridge/test/ledger"
	"ndrbridge/transform"
)

func TestASinkFollowsItsConfiguration(t *testing.T) {
	_, url := startAppliance(t, 40)
	book := ledger.New()
	var flying, most atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for n := flying.Add(1); ; {
			if seen := most.Load(); n <= seen || most.CompareAndSwap(seen, n) {
				break
			}
		}
		defer flying.Add(-1)
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = unzipped
		} else {
			t.Error("a body of 2 KB is not compressed")
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
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
	sink = strings.Replace(sink, "webhook: {", "redact: [detection.description, detection.participants.hostname], webhook: {concurrency: 4, gzip: true, ", 1)
	run(t, configuration(t, url, sink))
	await(t, "all detections", func() bool { return book.Received("soc") == 40 })
	if most.Load() > 4 {
		t.Errorf("%d requests were in flight", most.Load())
	}
}
