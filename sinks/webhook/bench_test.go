package webhook_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"

	"ndrbridge/sinks/webhook"
	"ndrbridge/test/loopback"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// BenchmarkSend sends batches of 500 events of 2 KB to a server in the same
// process that does no more than HTTP/1.1 requires; its work is included.
func BenchmarkSend(b *testing.B) {
	url := sinkhole(b)
	events := sinktest.Events(500, 250, 2048)
	for _, test := range []struct {
		name    string
		options webhook.Options
	}{
		{"structured, 1 in flight", webhook.Options{}},
		{"structured, 8 in flight", webhook.Options{Concurrency: 8}},
		{"structured, 8 in flight, compressed", webhook.Options{Concurrency: 8, Gzip: true}},
		{"binary, 1 in flight", webhook.Options{Mode: transform.Binary}},
		{"binary, 8 in flight", webhook.Options{Mode: transform.Binary, Concurrency: 8}},
	} {
		test.options.URL = url
		s := open(b, test.options)
		b.Run(test.name, func(b *testing.B) {
			sinktest.PerEvent(b, len(events), func() error { return s.Send(b.Context(), events) })
		})
	}
	b.Run("structured with http.Client alone, 1 in flight", func(b *testing.B) {
		sinktest.PerEvent(b, len(events), func() error {
			for _, e := range events {
				answer, err := http.Post(url, transform.ContentTypeStructured, bytes.NewReader(e.Structured()))
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

// BenchmarkSendBatch sends the same in batch mode.
func BenchmarkSendBatch(b *testing.B) {
	url := sinkhole(b)
	for _, n := range []int{100, 500, 2000} {
		events := sinktest.Events(n, n/2, 2048)
		for _, o := range []webhook.Options{{}, {Concurrency: 8}, {Gzip: true}, {Concurrency: 8, Gzip: true}} {
			o.URL, o.Mode = url, transform.Batch
			s := open(b, o)
			b.Run(fmt.Sprintf("%d events, %d in flight, gzip %v", n, max(1, o.Concurrency), o.Gzip), func(b *testing.B) {
				sinktest.PerEvent(b, n, func() error { return s.Send(b.Context(), events) })
			})
		}
	}
}

// sinkhole is a server that accepts every request. It returns its URL.
func sinkhole(b *testing.B) string {
	b.Helper()
	return "http://" + loopback.Serve(b, swallow) + "/hooks/x"
}

// swallow answers requests until the connection ends.
func swallow(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 64<<10)
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
		if len(bytes.TrimSpace(line)) > 0 {
			continue
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}
