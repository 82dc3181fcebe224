package appliance

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	const date = "Sun, 06 Nov 1994 08:49:37 GMT"
	for name, test := range map[string]struct {
		value, date string
		want        time.Duration
	}{
		"seconds":                         {"120", date, 2 * time.Minute},
		"seconds without a date":          {"120", "", 2 * time.Minute},
		"no seconds":                      {"0", date, 0},
		"nothing":                         {"", date, 0},
		"a date":                          {"Sun, 06 Nov 1994 08:50:07 GMT", date, 30 * time.Second},
		"a date in the form of RFC 850":   {"Sunday, 06-Nov-94 08:50:07 GMT", date, 30 * time.Second},
		"a date in the form of asctime":   {"Sun Nov  6 08:50:07 1994", date, 30 * time.Second},
		"a date in the past":              {"Sun, 06 Nov 1994 08:49:07 GMT", date, 0},
		"the date of the answer":          {date, date, 0},
		"a date that counts from nothing": {"Sun, 06 Nov 2094 08:50:07 GMT", "", 0},
		"a date that counts from a text":  {"Sun, 06 Nov 1994 08:50:07 GMT", "now", 0},
		"white space around it":           {" 7 ", date, 7 * time.Second},
		"a number below 0":                {"-7", date, 0},
		"a number with a sign":            {"+7", date, 0},
		"a number with a fraction":        {"7.5", date, 0},
		"a text":                          {"soon", date, 0},
		"a year":                          {"31536000", date, maxRetryAfter},
		"more than 64 bits":               {"99999999999999999999999", date, maxRetryAfter},
		"a date far off":                  {"Sun, 06 Nov 2094 08:50:07 GMT", date, maxRetryAfter},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			h.Set("Retry-After", test.value)
			h.Set("Date", test.date)
			if got := retryAfter(h); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestRetryAfterIsPartOfEveryFailure(t *testing.T) {
	for _, status := range []int{200, 301, 401, 404, 429, 500, 503} {
		c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "Sun, 06 Nov 1994 08:50:07 GMT")
			w.Header().Set("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
			w.WriteHeader(status)
		})
		e := failure(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
		if e.RetryAfter != 30*time.Second || e.Throttled() != (status == 429 || status == 503) {
			t.Errorf("%d: %#v", status, e)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "Sun, 06 Nov 1994 08:49:37 GMT")
	f.Add("Sun, 06 Nov 1994 08:50:07 GMT", "Sun, 06 Nov 1994 08:49:37 GMT")
	f.Add("Sunday, 06-Nov-94 08:50:07 GMT", "")
	f.Fuzz(func(t *testing.T, value, date string) {
		wait := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}})
		if wait < 0 || wait > maxRetryAfter || wait%time.Second != 0 {
			t.Errorf("%s", wait)
		}
	})
}
