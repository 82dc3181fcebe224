package appliance_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ndrbridge/internal/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestANoteIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   appliance.Note
		err    string
	}{
		"a note":                          {`{"author":"ana","note":"a\r\n\u00e9","update_time":1750000000123}`, appliance.Note{Text: "a\r\né", Author: "ana", Time: 1750000000123}, ""},
		"one of nobody":                   {`{"author":null,"note":"a"}`, appliance.Note{Text: "a"}, ""},
		"no text":                         {`{"note":null,"author":"ana"}`, appliance.Note{Author: "ana"}, ""},
		"nothing":                         {`{}`, appliance.Note{}, ""},
		"half a surrogate pair":           {`{"note":"a\ud800"}`, appliance.Note{Text: "a\ufffd", Inexact: true}, ""},
		"bytes that are not UTF-8":        {"{\"note\":\"a\xff\"}", appliance.Note{Text: "a\ufffd", Inexact: true}, ""},
		"two texts":                       {`{"note":"a","note":"b"}`, appliance.Note{Text: "b", Inexact: true}, ""},
		"a text under an unknown name":    {`{"text":"a"}`, appliance.Note{}, "no member note"},
		"a note that is a number":         {`{"note":1}`, appliance.Note{}, "the note is a number, but must be a string"},
		"several notes":                   {`[{"note":"a"}]`, appliance.Note{}, "must be an object"},
		"an answer that ends too early":   {`{"note":"a`, appliance.Note{}, "incomplete"},
		"an answer that is far too large": {`{"note":"` + strings.Repeat("x", 17<<20) + `"}`, appliance.Note{}, appliance.ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			client := notesClient(t, func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, r.Method+" "+r.URL.Path, "GET /api/v1/detections/9007199254740993/notes")
				io.WriteString(w, c.answer)
			})
			var page appliance.Page
			got, err := client.Note(t.Context(), 9007199254740993, &page)
			assert.Equal(t, got, c.want)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			_, ok := errors.AsType[*appliance.Error](err)
			assert.True(t, ok, err)
			assert.Contains(t, err.Error(), c.err)
		})
	}
}

func TestANoteIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		err  string // of a text that is not sent
	}{
		"a text":                       {"<a> & \u2028 é\r\n", ""},
		"a MiB":                        {strings.Repeat("x", 1<<20), ""},
		"more than is written":         {strings.Repeat("x", appliance.MaxNote+1), "the text would have 2097153 bytes, but a note is written with at most 2097152"},
		"a text that is not all UTF-8": {"a\xff", "not valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			client := notesClient(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				assert.Equal(t, r.Method+" "+r.URL.Path, "PUT /api/v1/detections/9007199254740993/notes")
				var body map[string]string
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
				assert.DeepEqual(t, body, map[string]string{"note": c.text})
				w.WriteHeader(http.StatusNoContent)
			})
			err := client.PutNote(t.Context(), 9007199254740993, c.text)
			if c.err == "" {
				assert.True(t, err == nil && requests == 1, err, requests)
				return
			}
			assert.True(t, err != nil && requests == 0, requests)
			assert.Contains(t, err.Error(), c.err)
		})
	}
}

func notesClient(t *testing.T, serve http.HandlerFunc) *appliance.Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/version") { // for the time of the answer
			io.WriteString(w, `{"version":"26.3"}`)
			return
		}
		serve(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := appliance.New(appliance.Options{URL: server.URL, Key: func() (string, error) { return "k", nil }})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}
