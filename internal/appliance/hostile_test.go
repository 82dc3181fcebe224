package appliance

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// hostileAnswer is how many bytes an answer may have.
const hostileAnswer = 4 << 20

// filled repeats part between head and tail up to the size of an answer that is allowed.
func filled(head, part, tail string) string {
	n := (hostileAnswer - len(head) - len(tail)) / len(part)
	return head + strings.TrimSuffix(strings.Repeat(part, n), ",") + tail
}

// zipped serves a body of any size as a few bytes of gzip.
func zipped(t *testing.T, body string) http.HandlerFunc {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	require.Value(w.Write([]byte(body)))(t)
	require.NoError(t, w.Close())
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(b.Bytes())
	}
}

func TestAnAnswerCostsNoMoreThanAFewTimesItsSize(t *testing.T) {
	detections := func(t *testing.T, c *Client) error { return c.SearchDetections(t.Context(), anySearch, new(Page)) }
	ids := func(t *testing.T, c *Client) error {
		_, err := c.SearchDetectionIDs(t.Context(), anySearch)
		return err
	}
	audit := func(t *testing.T, c *Client) error { return c.AuditLog(t.Context(), 500, 0, new(Page)) }
	devices := func(t *testing.T, c *Client) error { return c.SearchDevices(t.Context(), []int64{1, 2}, new(Page)) }
	formats := func(t *testing.T, c *Client) error { return c.DetectionFormats(t.Context(), new(Page)) }
	records := func(t *testing.T, c *Client) error {
		return c.SearchRecords(t.Context(), anyRecords, new(RecordPage))
	}
	next := func(t *testing.T, c *Client) error {
		return c.NextRecords(t.Context(), "a", time.Minute, new(RecordPage))
	}
	firmware := func(t *testing.T, c *Client) error { _, err := c.Firmware(t.Context()); return err }
	ticketing := func(t *testing.T, c *Client) error { _, _, err := c.Ticketing(t.Context()); return err }
	const tooMany = "requested"
	for name, test := range map[string]struct {
		call func(*testing.T, *Client) error
		body string
		want string // in the error; empty: there is none
	}{
		"empty detections":                          {detections, filled("[", "{},", "]"), tooMany},
		"empty detections behind bytes not UTF-8":   {detections, filled("[{\"a\":\"\xff\"},", "{},", "]"), tooMany},
		"empty audit log entries":                   {audit, filled("[", "{},", "]"), tooMany},
		"empty devices":                             {devices, filled("[", "{},", "]"), tooMany},
		"empty formats":                             {formats, filled("[", "{},", "]"), tooMany},
		"empty records":                             {records, filled(`{"records":[`, "{},", "]}"), tooMany},
		"empty records in several arrays":           {records, filled(`{`, `"records":[{},{},{}],`, "}"), tooMany},
		"empty records behind a cursor":             {next, filled(`{"records":[`, "{},", "]}"), tooMany},
		"ids":                                       {ids, filled("[", "1,", "]"), tooMany},
		"ids in objects":                            {ids, filled("[", `{"id":1},`, "]"), tooMany},
		"one detection with millions of members":    {detections, filled("[{", `"a":1,`, "}]"), ""},
		"detections with thousands of members each": {detections, filled("[", "{"+strings.Repeat(`"a":1,`, 300000)+`"a":1},`, "]"), ""},
		"nested arrays":                             {detections, `[{"a":` + strings.Repeat("[", 1<<21-8) + strings.Repeat("]", 1<<21-8) + `}]`, "JSON"},
		"a number of millions of digits":            {detections, filled(`[{"a":`, "1", "}]"), ""},
		"warnings":                                  {records, filled(`{"records":[],"warnings":[`, `"",`, "]}"), ""},
		"a long warning":                            {records, filled(`{"records":[],"warnings":["`, "x", `"]}`), ""},
		"a long cursor":                             {records, filled(`{"records":[],"cursor":"`, "x", `"}`), ""},
		"names of millions of bytes beside records": {records, filled(`{"records":[],"`, "x", `":1}`), ""},
		"a version of millions of numbers":          {firmware, filled(`{"version":"1`, ".1", `"}`), ErrTooLarge.Error()},
		"ticketing with millions of members":        {ticketing, filled(`{`, `"a":1,`, `}`), ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, zipped(t, test.body), func(o *Options) { o.Timeout, o.MaxAnswer = time.Minute, hostileAnswer })
			test.body = ""
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := test.call(t, c)
			runtime.ReadMemStats(&after)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if err != nil && len(err.Error()) > 4<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			// The growing buffer alone takes four times the size.
			const times = 8
			spent := int64(after.TotalAlloc - before.TotalAlloc)
			assert.True(t, spent <= times*hostileAnswer, spent, "bytes were allocated for an answer of", hostileAnswer)
		})
	}
}

func TestWarningsAreFewAndShort(t *testing.T) {
	long := strings.Repeat("é\n", 1<<20)
	body, err := json.Marshal(map[string]any{"records": []int{}, "warnings": append(strings.Split(strings.Repeat("slow ", 100), " "), long)})
	require.NoError(t, err)
	several := string(body)
	body, err = json.Marshal(map[string]any{"records": []int{}, "warnings": []any{long, 1}})
	require.NoError(t, err)
	for _, body := range []string{several, string(body)} {
		var page RecordPage
		require.NoError(t, newClient(t, answer(200, "application/json", body)).SearchRecords(t.Context(), anyRecords, &page))
		n := len(page.Warnings)
		assert.True(t, n != 0 && n <= maxWarnings, n, "warnings")
		for _, w := range page.Warnings {
			assert.True(t, len([]rune(w)) <= maxExcerpt, "a warning is", len([]rune(w)), "characters long")
			assert.NotContains(t, w, "\n", "a warning is")
		}
	}
}

func TestALongHeaderDoesNotMakeALongError(t *testing.T) {
	for name, status := range map[string]int{"a redirect": http.StatusFound, "a refusal": http.StatusUnauthorized, "a failure": http.StatusBadGateway} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{100 << 10, 8 << 20} {
				c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Location", "https://x.example/"+strings.Repeat("x", size))
					w.WriteHeader(status)
					fmt.Fprint(w, strings.Repeat("x", size))
				})
				e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
				n := len(e.Error())
				assert.True(t, n <= 4<<10, "a header of", size, "bytes makes an error of", n)
			}
		})
	}
}
