package appliance

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockIsCompared(t *testing.T) {
	const second = time.Second
	dated := func(status int, ahead, before, after time.Duration) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			time.Sleep(before)
			date := time.Now().Add(ahead).UTC().Format(http.TimeFormat)
			time.Sleep(after)
			return respond(r, status, http.Header{"Date": {date}}, `{"version": "26.3"}`)
		}
	}
	ask := func(t *testing.T, answers ...roundTrip) (time.Duration, bool) {
		var now roundTrip
		c := newClientOf(t, func(o *Options) {
			o.URL, o.Timeout = "http://sensor.example", time.Minute
			o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) { return now(r) })
		})
		for _, now = range answers {
			_, _ = c.Background().Firmware(t.Context()) // a status that is none of success is tried, too
			time.Sleep(10100 * time.Millisecond)
		}
		return c.ClockSkew()
	}
	many := func(n int, answer roundTrip) (all []roundTrip) {
		for range n {
			all = append(all, answer)
		}
		return all
	}
	for _, c := range []struct {
		name    string
		answers []roundTrip
		want    time.Duration
		within  time.Duration
	}{
		{"a clock that is ahead", many(1, dated(200, 90*second, 0, 0)), 90 * second, second / 2},
		{"a clock that is behind", many(1, dated(200, -90*second, 0, 0)), -90 * second, second / 2},
		{"a clock that is right", many(1, dated(200, 0, 0, 0)), 0, second / 2},
		{"answers together tell it better than one", many(20, dated(200, 250*time.Millisecond, 0, 0)), 250 * time.Millisecond, 100 * time.Millisecond},
		{"a slow answer tells the middle, and little", many(1, dated(200, 0, 20*second, 0)), 0, 11 * second},
		{"a slow answer does not spoil what a quick one told", append(many(3, dated(200, 0, 0, 0)), dated(200, 0, 0, 20*second)), 0, second / 2},
		{"a quick answer betters a slow one", []roundTrip{dated(200, 0, 20*second, 0), dated(200, 0, 0, 0)}, 0, second / 2},
		{"a clock that was set is believed at once", append(many(20, dated(200, time.Hour, 0, 0)), dated(200, 0, 0, 0)), 0, second / 2},
		{"an answer of a proxy is not that of the appliance", []roundTrip{dated(200, 0, 0, 0), dated(502, time.Hour, 0, 0)}, 0, second / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, ok := ask(t, c.answers...)
				if off := (got - c.want).Abs(); !ok || off > c.within {
					t.Errorf("%v ahead (%t), want %v within %v", got, ok, c.want, c.within)
				}
			})
		})
	}
	t.Run("it is not known before an answer with a Date", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			undated := func(r *http.Request) (*http.Response, error) {
				return respond(r, 200, http.Header{"Date": {"today"}}, `{"version": "26.3"}`)
			}
			if got, ok := ask(t, undated); ok {
				t.Errorf("%v ahead", got)
			}
		})
	})
}
