package appliance

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// accepts returns a handler that answers with an empty page if the key is valid.
func accepts(keys *string, requests *int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*requests++
		if r.Header.Get("Authorization") != "Service apikey="+*keys {
			answer(401, "application/json", `{"error_message": "Invalid access token"}`)(w, r)
			return
		}
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), "mod_time") {
			w.WriteHeader(400)
			return
		}
		io.WriteString(w, "[]")
	}
}

func TestARefusedKeyIsReadAgain(t *testing.T) {
	right, onDisk := "first", "first"
	requests, reads := 0, 0
	var readErr error
	c := newClient(t, accepts(&right, &requests), func(o *Options) {
		o.Key = func() (string, error) { reads++; return onDisk, readErr }
	})
	search := func() error { return c.SearchDetections(t.Context(), anySearch, new(Page)) }
	expect := func(what string, wantRequests, wantReads int) {
		t.Helper()
		assert.Equal(t, requests, wantRequests, what, "requests")
		assert.Equal(t, reads, wantReads, what, "reads")
		requests, reads = 0, 0
	}

	for range 3 {
		require.NoError(t, search())
	}
	expect("a key that is right is read once", 3, 1)

	right, onDisk = "second", "second"
	assert.NoError(t, search())
	expect("a key that was changed is tried at once", 2, 1)

	right = "third"
	e := failureOf(t, search(), "second")
	assert.True(t, e.Refused() && e.Status == 401, e)
	expect("a key that was not changed is not tried again", 1, 1)

	onDisk = "wrong"
	e = failureOf(t, search(), "second", "wrong")
	assert.True(t, e.Refused(), e)
	expect("a key is not tried more than twice", 2, 1)

	readErr = errors.New("no such file")
	e = failureOf(t, search())
	assert.True(t, !e.Refused() && errors.Is(e, readErr) && strings.Contains(e.Error(), "read the API key"), e)
	expect("a key that can no longer be read is reported", 1, 1)
	failureOf(t, search())
	expect("without a key nothing is sent", 0, 1)

	readErr, onDisk = nil, " \n"
	e = failureOf(t, search())
	assert.True(t, !e.Refused() && strings.Contains(e.Error(), "empty"), e)
	expect("with an empty key nothing is sent", 0, 1)

	onDisk = "third"
	assert.NoError(t, search())
	expect("a key that was fixed is used", 1, 1)
}

func TestAKeyThatCannotBeSentIsNotShown(t *testing.T) {
	const key = "two\nlines"
	c := newClientOf(t, func(o *Options) {
		o.URL, o.Key = "http://sensor.example", func() (string, error) { return key, nil }
	})
	failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)), key, "two", "lines")
}

func TestAKeyWithALineBreakIsReadAgain(t *testing.T) {
	right, onDisk := "sesame", "ses\r\name"
	requests := 0
	c := newClient(t, accepts(&right, &requests), func(o *Options) {
		o.Key = func() (string, error) { return onDisk, nil }
	})
	search := func() error { return c.SearchDetections(t.Context(), anySearch, new(Page)) }
	for range 2 {
		e := failureOf(t, search(), "ame")
		assert.True(t, requests <= 0 && strings.Contains(e.Error(), "line break"), requests, "requests", e)
	}
	onDisk = right
	assert.NoError(t, search(), "once it is corrected")
}
