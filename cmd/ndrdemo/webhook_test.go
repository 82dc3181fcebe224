package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ndrbridge/transform"
)

func TestReceiver(t *testing.T) {
	t.Run("it hangs up on the hundredth event after it took it", func(t *testing.T) {
		arrivals := newArrivals()
		server := httptest.NewServer(&receiver{arrivals: arrivals})
		defer server.Close()
		failed := 0
		for i := range int64(200) {
			body := event(t, version(i+1, 10)).Structured()
			answer, err := http.Post(server.URL, transform.ContentTypeStructured, bytes.NewReader(body))
			if err != nil {
				failed++
				continue
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusNoContent {
				t.Errorf("event %d: %s", i, answer.Status)
			}
		}
		if events, duplicates := arrivals.count(sinkSOC); events != 200 || duplicates != 0 || failed != 2 {
			t.Errorf("%d events, %d duplicates, %d requests failed", events, duplicates, failed)
		}
	})
	t.Run("an event that comes again is a duplicate", func(t *testing.T) {
		arrivals := newArrivals()
		for range 3 {
			if _, err := arrivals.receive(sinkSOC, event(t, version(1, 10)).Structured()); err != nil {
				t.Error(err)
			}
		}
		if events, duplicates := arrivals.count(sinkSOC); events != 3 || duplicates != 2 {
			t.Errorf("%d events, %d duplicates", events, duplicates)
		}
	})
	t.Run("anything but an event is rejected", func(t *testing.T) {
		answer := httptest.NewRecorder()
		(&receiver{arrivals: newArrivals()}).ServeHTTP(answer, httptest.NewRequest("POST", "/", strings.NewReader("{}")))
		if answer.Code != http.StatusBadRequest {
			t.Errorf("got %d", answer.Code)
		}
	})
	t.Run("events of the bridge itself are not counted", func(t *testing.T) {
		e, err := transform.New(transform.Attributes{ID: "1", Source: "ndrbridge://hq/events", Type: "t.unreachable"}, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		arrivals := newArrivals()
		if _, err := arrivals.receive(sinkSOC, e.Structured()); err != nil {
			t.Error(err)
		}
		if events, _ := arrivals.count(sinkSOC); events != 0 || arrivals.ledger.Received(sinkSOC) != 0 {
			t.Errorf("%d events", events)
		}
	})
}
