package notes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/internal/appliance"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/notes"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const id = 9007199254740993

// world is an appliance with one detection.
type world struct {
	*testing.T
	standin *standin.Appliance
	mu      sync.Mutex // held while a request of the client is answered
	client  *appliance.Client
	step    func(step int)                                    // called before and after each request of the client
	serve   func(w http.ResponseWriter, r *http.Request) bool // it may answer one itself
	steps   int
	puts    int
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, standin: standin.New(standin.Options{Seed: 1, Size: 1000}), step: func(int) {}}
	d := w.standin.Generate()
	d.ID = id
	w.standin.Add(d)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/notes") {
			w.standin.ServeHTTP(rw, r)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.step(w.steps)
		if r.Method == http.MethodPut {
			w.puts++
		}
		if w.serve == nil || !w.serve(rw, r) {
			w.standin.ServeHTTP(rw, r)
		}
		w.step(w.steps + 1)
		w.steps += 2
	}))
	t.Cleanup(server.Close)
	var err error
	w.client, err = appliance.New(appliance.Options{URL: server.URL, Key: func() (string, error) { return standin.DefaultAPIKey, nil }})
	require.NoError(t, err)
	t.Cleanup(w.client.Close)
	return w
}

// call sends a request of an analyst.
func (w *world) call(method, body string) (status int, answer string) {
	r := httptest.NewRequest(method, fmt.Sprintf("/api/v1/detections/%d/notes", id), strings.NewReader(body))
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	w.standin.ServeHTTP(recorder, r)
	return recorder.Code, recorder.Body.String()
}

func (w *world) put(text string) {
	body, err := json.Marshal(map[string]string{"note": text, "author": "bob"})
	require.NoError(w, err)
	status, answer := w.call(http.MethodPut, string(body))
	require.Equal(w, status, http.StatusNoContent, answer)
}

func (w *world) text() string {
	status, answer := w.call(http.MethodGet, "")
	if status == http.StatusNotFound {
		return ""
	}
	var n struct {
		Note string `json:"note"`
	}
	require.NoError(w, json.Unmarshal([]byte(answer), &n))
	return n.Note
}

func (w *world) write(key string) error {
	return notes.Write(w.Context(), w.client, id, entry(key, "from the ticket"))
}

func TestAnEntryIsWrittenOnce(t *testing.T) {
	damaged := strings.Replace(notes.Merge("seen", entry("0", "a")), "> a", "> b", 1)
	for name, text := range map[string]string{
		"to a detection without a note": "",
		"to a text":                     "seen\r\n<b> & \u2028",
		"to a text of a MiB":            strings.Repeat("é\n", 1<<20/3),
		"to a damaged section":          damaged,
		"to a copy of a section":        notes.Merge("seen", entry("0", "a")) + "\n\n" + notes.Merge("seen", entry("0", "a")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if text != "" {
				w.put(text)
			}
			analysts, before := notes.Split(text)
			for range 2 {
				for _, key := range []string{"1", "2"} {
					require.NoError(t, w.write(key))
				}
			}
			kept, after := notes.Split(w.text())
			assert.True(t, kept == analysts, "the text of analysts is", kept)
			assert.Equal(t, strings.TrimSpace(keys(before)+" 1 2"), keys(after))
			assert.Equal(t, w.puts, 2, "writes")
		})
	}
}

// TestNothingOfAnAnalystIsLost lets an analyst write at each step of a write. Only of a text between
// our read and our write, which the interface cannot tell us of, nothing is left.
func TestNothingOfAnAnalystIsLost(t *testing.T) {
	const seen = "seen\r\n"
	for name, edit := range map[string]func(text string) string{
		"a text in place of all others": func(string) string { return "new" },
		"a text before":                 func(text string) string { return "new" + text },
		"a text after":                  func(text string) string { return text + "\nnew" },
		"a text in the section": func(text string) string {
			if !strings.Contains(text, "> from") {
				return text + "new"
			}
			return strings.Replace(text, "> from", "> new from", 1)
		},
		"the former text, as an editor does": func(string) string { return seen + "new" },
		"a part of it":                       func(string) string { return "new"[:2] },
		"nothing any more":                   nil,
	} {
		// The steps are before and after: the read, the write, the read.
		for step := range 6 {
			t.Run(fmt.Sprint(name, ", step ", step), func(t *testing.T) {
				w := newWorld(t)
				w.put(seen)
				want := ""
				w.step = func(at int) {
					switch {
					case at != step:
					case edit == nil:
						w.call(http.MethodDelete, "")
					default:
						text := edit(w.text())
						w.put(text)
						want = text
					}
				}
				require.NoError(t, w.write("1"))
				text := w.text()
				inWindow := step == 1 || step == 2
				isLast := step == 5 // nothing is read any more
				switch {
				case isLast:
					if edit != nil {
						assert.Equal(t, text, want)
					}
				case inWindow:
					assert.True(t, strings.HasPrefix(text, seen), "what was read is kept", text)
					assert.Equal(t, strings.Count(text, " #1\n"), 1, text)
				default:
					analysts, _ := notes.Split(want)
					kept, _ := notes.Split(text)
					assert.Equal(t, kept, analysts)
					assert.Equal(t, strings.Count(text, " #1\n"), 1, text)
				}
			})
		}
	}
}

func TestAnAnalystWhoAlwaysWritesIsNotOvertaken(t *testing.T) {
	w := newWorld(t)
	texts := 0
	w.step = func(at int) {
		if at%4 == 0 { // before each read
			texts++
			w.put(fmt.Sprint("text ", texts))
		}
	}
	err := w.write("1")
	require.ErrorIs(t, err, notes.ErrContended)
	class, _ := failure.ClassOf(err)
	assert.True(t, class == failure.Transient && w.puts == 5 && w.text() == "text 6", class, w.puts, w.text())
	w.step = func(int) {}
	require.NoError(t, w.write("1"))
	analysts, entries := notes.Split(w.text())
	assert.True(t, analysts == "text 6" && keys(entries) == "1", w.text())
}

func TestALostAnswerMakesNoSecondEntry(t *testing.T) {
	for name, served := range map[string]bool{"to a write that was done": true, "to one that was not": false} {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			t.Run(name+", "+method, func(t *testing.T) {
				w := newWorld(t)
				w.put("seen")
				w.serve = func(rw http.ResponseWriter, r *http.Request) bool {
					if r.Method != method {
						return false
					}
					if served {
						w.standin.ServeHTTP(httptest.NewRecorder(), r)
					}
					connection, _, err := http.NewResponseController(rw).Hijack()
					require.NoError(t, err)
					connection.Close()
					return true
				}
				err := w.write("1")
				e, ok := errors.AsType[*appliance.Error](err)
				require.True(t, ok && e.Status == 0, err)
				w.mu.Lock()
				w.serve = nil
				w.mu.Unlock()
				require.NoError(t, w.write("1"))
				analysts, entries := notes.Split(w.text())
				assert.True(t, analysts == "seen" && keys(entries) == "1", w.text())
			})
		}
	}
}

func TestWhatTheApplianceRefuses(t *testing.T) {
	answer := func(method string, status int, kind, text string) func(w *world) {
		return func(w *world) {
			w.serve = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method == method {
					rw.Header().Set("Content-Type", kind)
					rw.WriteHeader(status)
					io.WriteString(rw, text)
				}
				return r.Method == method
			}
		}
	}
	for name, c := range map[string]struct {
		change func(w *world)
		status int // of the error; 0 if it is rejected by us
		puts   int
		err    string
	}{
		"a detection that is gone":     {func(w *world) { w.standin.Hide(id) }, 404, 1, "PUT /api/v1/detections/9007199254740993/notes: answered 404"},
		"notes without tracking":       {func(w *world) { w.standin.SetTicketing(false) }, 422, 0, "GET /api/v1/detections/9007199254740993/notes: answered 422"},
		"a key that may not read":      {answer("GET", 403, "application/json", `{}`), 403, 0, "answered 403"},
		"a key that may not write":     {answer("PUT", 403, "application/json", `{}`), 403, 1, "answered 403"},
		"a text that is too long":      {answer("PUT", 413, "application/json", `{}`), 413, 1, "answered 413"},
		"a page of a proxy":            {answer("GET", 404, "text/html", "<html>"), 404, 0, "answered 404 Not Found with text/html"},
		"a note that is not a text":    {answer("GET", 200, "application/json", `{"note": ["seen"]}`), 200, 0, "must be a string"},
		"a note that has no JSON text": {answer("GET", 200, "application/json", `{"note": "\udc00"}`), 0, 0, "so a write would change it"},
		"a note that is full": {func(w *world) {
			answer("GET", 200, "application/json", `{"note": "`+strings.Repeat("x", 2<<20)+`"}`)(w)
		}, 0, 0, "more than 2097152: shorten it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("seen")
			c.change(w)
			err := w.write("1")
			require.True(t, err != nil, "no error")
			e, isAnswer := errors.AsType[*appliance.Error](err)
			class, _ := failure.ClassOf(err)
			assert.True(t, isAnswer == (c.status != 0) && (!isAnswer || e.Status == c.status) && (isAnswer || class == failure.Rejected), err)
			assert.Contains(t, err.Error(), c.err)
			assert.Equal(t, w.puts, c.puts, "writes")
			w.standin.SetTicketing(true)
			if c.status != http.StatusNotFound || c.puts == 0 { // it is not gone
				assert.Equal(t, w.text(), "seen")
			}
		})
	}
}

func TestANoteThatTheApplianceCutsIsRestored(t *testing.T) {
	for name, text := range map[string]string{
		"within the section":       strings.Repeat("x", 200),
		"in the text behind it":    notes.Merge("", entry("0", "a")) + "\n" + strings.Repeat("x", 60),
		"in its very last letters": notes.Merge("", entry("0", "a")) + strings.Repeat("\n\n", 26) + strings.Repeat("x", 60),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(text)
			most := len(text) + 9 // bytes that this appliance keeps
			w.serve = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut {
					return false
				}
				var n struct {
					Note string `json:"note"`
				}
				require.NoError(t, json.NewDecoder(r.Body).Decode(&n))
				w.put(n.Note[:min(len(n.Note), most)])
				rw.WriteHeader(http.StatusNoContent)
				return true
			}
			err := w.write("1")
			class, _ := failure.ClassOf(err)
			require.True(t, err != nil && class == failure.Rejected, err)
			assert.Contains(t, err.Error(), fmt.Sprintf("the appliance kept %d of the ", most))
			assert.Equal(t, w.text(), text)
			assert.Equal(t, w.puts, 2, "writes")
		})
	}
}

// transport serves requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (send transport) RoundTrip(r *http.Request) (*http.Response, error) { return send(r) }

func TestEntriesAndAnalystsShareANote(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		w.call(http.MethodDelete, "")
		var lines []string // that must be kept
		n, faults, window := 0, 3, false
		analyst := func() {
			n++
			line := fmt.Sprintf("line %d of an analyst\n", n)
			if text := w.text(); rapid.Bool().Draw(t, "before") {
				w.put(line + text)
			} else {
				w.put(strings.TrimSuffix(text, "\n") + "\n" + line)
			}
			if !window {
				lines = append(lines, line)
			}
		}
		send := func(r *http.Request) (*http.Response, error) {
			cut := faults > 0 && rapid.IntRange(0, 5).Draw(t, "fault") == 0
			if cut {
				faults--
			}
			if rapid.IntRange(0, 2).Draw(t, "analyst before") == 0 {
				analyst()
			}
			recorder := httptest.NewRecorder()
			if !cut || rapid.Bool().Draw(t, "served") {
				w.standin.ServeHTTP(recorder, r)
			}
			if strings.HasSuffix(r.URL.Path, "/notes") {
				window = r.Method == http.MethodGet && !cut // until the write
			}
			if rapid.IntRange(0, 2).Draw(t, "analyst after") == 0 {
				analyst()
			}
			if cut {
				return nil, errors.New("the answer is lost")
			}
			return recorder.Result(), nil
		}
		client, err := appliance.New(appliance.Options{
			URL: "http://sensor.example", Key: func() (string, error) { return standin.DefaultAPIKey, nil }, Transport: transport(send),
		})
		require.NoError(t, err)
		entries := rapid.IntRange(1, 4).Draw(t, "entries")
		want := ""
		for i := range entries {
			for {
				err := notes.Write(w.Context(), client, id, entry(fmt.Sprint(i), "from the ticket"))
				window = false
				if err == nil {
					break
				}
				e, ok := errors.AsType[*appliance.Error](err)
				require.True(t, ok && e.Status == 0 || errors.Is(err, notes.ErrContended), err)
			}
			want += fmt.Sprint(i, " ")
		}
		analysts, got := notes.Split(w.text())
		require.Equal(t, keys(got), strings.TrimSpace(want))
		for _, line := range lines {
			require.True(t, strings.Contains(analysts, line), analysts, "does not have", line)
		}
	})
}
