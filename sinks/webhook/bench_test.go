package webhook_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"ndrbridge/sinks/sinktest"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// BenchmarkSend sends batches of 500 events of 2 KB to a server in the same
// process, whose work is part of what is measured.
func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	events := sinktest.Events(500, 50, 2048)
	run := func(b *testing.B, send func() error) {
		b.ReportAllocs()
		for b.Loop() {
			if err := send(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
	}
	for _, mode := range modes {
		s := open(b, webhook.Options{URL: server.URL, Mode: mode})
		b.Run(string(mode), func(b *testing.B) {
			run(b, func() error { return s.Send(b.Context(), events) })
		})
	}
	b.Run("structured with http.Client alone", func(b *testing.B) {
		run(b, func() error {
			for _, e := range events {
				answer, err := http.Post(server.URL, transform.ContentTypeStructured, bytes.NewReader(e.Structured()))
				if err != nil {
					return err
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			return nil
		})
	})
}
