package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestReceiver(t *testing.T) {
	t.Run("it hangs up on the hundredth event after it took it", func(t *testing.T) {
		arrivals := newArrivals(nil)
		server := httptest.NewServer(&receiver{arrivals: arrivals, screen: newScreen(io.Discard)})
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
			assert.Equal(t, answer.StatusCode, http.StatusNoContent, "event", i, answer.Status)
		}
		events, duplicates := arrivals.ledger.Received(sinkSOC), arrivals.ledger.Repeated(sinkSOC)
		assert.True(t, events == 200 && duplicates == 0 && failed == 2, events, "events", duplicates, "duplicates", failed, "requests failed")
	})
	t.Run("an event that comes again is a duplicate", func(t *testing.T) {
		arrivals := newArrivals(nil)
		for range 3 {
			_, err := arrivals.receive(sinkSOC, event(t, version(1, 10)).Structured())
			assert.NoError(t, err)
		}
		events, duplicates := arrivals.ledger.Received(sinkSOC), arrivals.ledger.Repeated(sinkSOC)
		assert.True(t, events == 3 && duplicates == 2, events, "events", duplicates, "duplicates")
	})
	t.Run("anything but an event is rejected", func(t *testing.T) {
		answer := httptest.NewRecorder()
		(&receiver{arrivals: newArrivals(nil), screen: newScreen(io.Discard)}).ServeHTTP(answer, httptest.NewRequest("POST", "/", strings.NewReader("{}")))
		assert.Equal(t, answer.Code, http.StatusBadRequest)
	})
	t.Run("events of the bridge itself are not counted", func(t *testing.T) {
		e, err := transform.New(transform.Attributes{ID: "1", Source: "ndrbridge://hq/events", Type: "t.unreachable"}, []byte("{}"))
		require.NoError(t, err)
		arrivals := newArrivals(nil)
		_, err = arrivals.receive(sinkSOC, e.Structured())
		assert.NoError(t, err)
		assert.Equal(t, arrivals.ledger.Received(sinkSOC), 0, "events")
	})
}

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	out := require.Value(os.Create(path))(t)
	defer out.Close()
	in := require.Value(os.Open(path))(t)
	defer in.Close()
	write := func(text string) {
		t.Helper()
		_, err := out.WriteString(text)
		require.NoError(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	lines, result := make(chan string, 10), make(chan error, 1)
	go func() { result <- follow(ctx, in, func(line []byte) { lines <- string(line) }) }()
	time.Sleep(10 * time.Millisecond)
	write("one\ntw")
	got := []string{<-lines}
	write("o\n")
	got = append(got, <-lines)
	write("three\nno line yet")
	stop()
	require.NoError(t, <-result)
	close(lines)
	for line := range lines {
		got = append(got, line)
	}
	assert.EqualSlices(t, got, []string{"one", "two", "three"})
}
