package retryafter_test

import (
	"net/http"
	"testing"
	"time"

	"ndrbridge/internal/retryafter"
	"ndrbridge/test/assert"
)

func TestParse(t *testing.T) {
	const date = "Sun, 06 Nov 1994 08:49:37 GMT"
	for name, test := range map[string]struct {
		value, date string
		want        time.Duration
		ok          bool
	}{
		"seconds":                         {"120", date, 2 * time.Minute, true},
		"seconds without a date":          {"120", "", 2 * time.Minute, true},
		"no seconds":                      {"0", date, 0, true},
		"nothing":                         {"", date, 0, false},
		"a date":                          {"Sun, 06 Nov 1994 08:50:07 GMT", date, 30 * time.Second, true},
		"a date in the form of RFC 850":   {"Sunday, 06-Nov-94 08:50:07 GMT", date, 30 * time.Second, true},
		"a date in the form of asctime":   {"Sun Nov  6 08:50:07 1994", date, 30 * time.Second, true},
		"a date in the past":              {"Sun, 06 Nov 1994 08:49:07 GMT", date, 0, true},
		"the date of the answer":          {date, date, 0, true},
		"a date that counts from nothing": {"Sun, 06 Nov 2094 08:50:07 GMT", "", 0, false},
		"a date that counts from a text":  {"Sun, 06 Nov 1994 08:50:07 GMT", "now", 0, false},
		"white space around it":           {" 7 ", date, 7 * time.Second, true},
		"a number below 0":                {"-7", date, 0, false},
		"a number with a sign":            {"+7", date, 0, false},
		"a number with a fraction":        {"7.5", date, 0, false},
		"a text":                          {"soon", date, 0, false},
		"a year":                          {"31536000", date, retryafter.Max, true},
		"the time of day in seconds":      {"1790000000", date, retryafter.Max, true},
		"more than 64 bits":               {"99999999999999999999999", date, retryafter.Max, true},
		"a date far off":                  {"Sun, 06 Nov 2094 08:50:07 GMT", date, retryafter.Max, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			h.Set("Retry-After", test.value)
			h.Set("Date", test.date)
			wait, ok := retryafter.Parse(h)
			assert.True(t, wait == test.want && ok == test.ok, wait, ok, test.want, test.ok)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("120", "Sun, 06 Nov 1994 08:49:37 GMT")
	f.Add("Sun, 06 Nov 1994 08:50:07 GMT", "Sun, 06 Nov 1994 08:49:37 GMT")
	f.Add("Sunday, 06-Nov-94 08:50:07 GMT", "")
	f.Add("18446744073709551616", "never")
	f.Fuzz(func(t *testing.T, value, date string) {
		wait, ok := retryafter.Parse(http.Header{"Retry-After": {value}, "Date": {date}})
		assert.True(t, wait >= 0 && wait <= retryafter.Max && wait%time.Second == 0 && (ok || wait == 0), wait, ok)
	})
}
