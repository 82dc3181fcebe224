package appliance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
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
		c.link.clock.agree = agreeingDates
		for _, now = range answers {
			_, _ = c.Background().Firmware(t.Context()) // tried with error statuses, too
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
		{"a fraction of a second", many(20, dated(200, 250*time.Millisecond, 0, 0)), 250 * time.Millisecond, second / 2},
		{"a slow answer gives the middle, and is inexact", many(1, dated(200, 0, 20*second, 0)), 0, 11 * second},
		{"a slow answer does not spoil the result of a quick one", append(many(5, dated(200, 0, 0, 0)), dated(200, 0, 0, 20*second)), 0, second / 2},
		{"a quick answer betters a slow one", []roundTrip{dated(200, 0, 20*second, 0), dated(200, 0, 0, 0)}, 0, second / 2},
		{"a clock that was set is not believed at once", append(many(20, dated(200, time.Hour, 0, 0)), many(4, dated(200, 0, 0, 0))...), time.Hour, second / 2},
		{"but once enough answers agree", append(many(20, dated(200, time.Hour, 0, 0)), many(5, dated(200, 0, 0, 0))...), 0, second / 2},
		{"an answer of a proxy is not that of the appliance", []roundTrip{dated(200, 0, 0, 0), dated(502, time.Hour, 0, 0)}, 0, second / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, ok := ask(t, c.answers...)
				off := (got - c.want).Abs()
				assert.True(t, ok && off <= c.within, got, "ahead", ok, c.want, "within", c.within)
			})
		})
	}
	t.Run("it is not known before an answer with a Date", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			undated := func(r *http.Request) (*http.Response, error) {
				return respond(r, 200, http.Header{"Date": {"today"}}, `{"version": "26.3"}`)
			}
			got, ok := ask(t, undated)
			assert.False(t, ok, got, "ahead")
		})
	})
}

// dating is an appliance whose answers have a given Date.
type dating struct {
	ahead time.Duration
	// wrong returns another Date for the nth answer; empty means the true one.
	wrong    func(n int) string
	requests []string
}

func (d *dating) RoundTrip(r *http.Request) (*http.Response, error) {
	d.requests = append(d.requests, r.URL.Path)
	date := ""
	if d.wrong != nil {
		date = d.wrong(len(d.requests))
	}
	if date == "" {
		date = time.Now().Add(d.ahead).UTC().Format(http.TimeFormat)
	}
	return respond(r, 200, http.Header{"Date": {date}}, "[]")
}

func (d *dating) client(t testing.TB, change ...func(*Options)) *Client {
	c := newClientOf(t, append([]func(*Options){func(o *Options) {
		o.URL, o.Transport = "http://sensor.example", d
	}}, change...)...)
	c.link.clock.agree = agreeingDates
	return c
}

// ask returns by how much the time of an answer is off.
func (d *dating) ask(t testing.TB, c *Client) (off time.Duration, err error) {
	var page Page
	asked := time.Now()
	err = c.SearchDetections(t.Context(), anySearch, &page)
	assert.True(t, err == nil || page.Date.IsZero(), "a page that failed is of", page.Date)
	return page.Date.Sub(asked.Add(d.ahead)), err
}

const epoch = "Thu, 01 Jan 1970 00:00:00 GMT"

func when(wrong func(n int) bool, date string) func(n int) string {
	return func(n int) string {
		if wrong(n) {
			return date
		}
		return ""
	}
}

func TestASingleWrongDateIsIgnored(t *testing.T) {
	const years = "Fri, 01 Jan 2100 00:00:00 GMT" // what synctest begins with is 2000
	for _, date := range []string{epoch, "Fri, 31 Dec 1999 00:00:00 GMT", "Sat, 01 Jan 2000 01:00:00 GMT", years} {
		for at := 1; at <= 12; at++ {
			t.Run(fmt.Sprintf("%s in answer %d", date[5:16], at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := &dating{wrong: when(func(n int) bool { return n == at }, date)}
					c := d.client(t)
					for range 8 {
						off, err := d.ask(t, c)
						require.True(t, err == nil && off <= 0 && off >= -2*time.Second, "the time is off by", off, err)
						time.Sleep(10100 * time.Millisecond)
					}
					ahead, ok := c.ClockSkew()
					assert.True(t, ok && ahead.Abs() <= time.Second, "ahead by", ahead, ok)
					n := c.DisbelievedDates()
					assert.True(t, n <= 1 && (n != 0 || at <= 6), n, "answers are counted as disbelieved")
				})
			})
		}
	}
}

func TestOnceTheClockIsKnownAPageCostsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dating{}
		c := d.client(t)
		for i := range 3 {
			require.Value(d.ask(t, c))(t)
			require.Equal(t, len(d.requests), agreeingDates+i, "requests for", i+1, "pages")
		}
		for _, path := range d.requests[1:agreeingDates] {
			assert.Equal(t, path, "/api/v1/service/version", "the time is asked for at")
		}
	})
}

func TestAProxyThatIsOftenWrongIsNotTrusted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lies := rapid.SampledFrom([]string{epoch, "Fri, 01 Jan 2100 00:00:00 GMT", "Sat, 01 Jan 2000 06:00:00 GMT"})
		// Right answers are frequent enough: there are never as many wrong ones in a row as
		// would be trusted.
		run := 0 // lies in a row
		d := &dating{ahead: time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(rt, "ahead"))}
		d.wrong = func(n int) string {
			if n > agreeingDates && run < agreeingDates-1 && rapid.Bool().Draw(rt, "lie") {
				run++
				return lies.Draw(rt, "date")
			}
			run = 0
			return ""
		}
		c := d.client(t)
		for range rapid.IntRange(1, 60).Draw(rt, "polls") {
			off, err := d.ask(t, c)
			require.True(rt, err == nil && off <= time.Second && off >= -2*time.Second, "the time is off by", off, err)
		}
	})
}

func TestAClockThatIsSetIsFollowed(t *testing.T) {
	for _, by := range []time.Duration{time.Minute, -time.Minute, 20 * 365 * 24 * time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reported []string
				d := &dating{}
				c := d.client(t, func(o *Options) {
					o.ClockSet = func(ahead time.Duration, first bool) {
						reported = append(reported, fmt.Sprint(ahead.Round(10*time.Second), first))
					}
					o.DateDisbelieved = func(date, expected time.Time) {
						off := date.Sub(expected) - by
						assert.True(t, off.Abs() <= 3*time.Second, date, "is disbelieved, expected was", expected)
					}
				})
				require.Value(d.ask(t, c))(t)
				d.ahead, d.requests = by, nil
				for range 3 {
					require.True(t, require.Value(d.ask(t, c))(t).Abs() <= 2*time.Second, "the time is off by")
					require.True(t, len(d.requests) >= agreeingDates, "it was believed after", len(d.requests), "answers")
				}
				assert.Equal(t, len(d.requests), agreeingDates+2, "requests for 3 pages")
				assert.Equal(t, strings.Join(reported, ", "), "0s true, "+fmt.Sprint(by)+" false", "reported")
			})
		})
	}
}

func TestASmallDifferenceBetweenNodesIsTolerated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dating{}
		c := d.client(t)
		for i := range 40 {
			d.ahead = time.Duration(i%2) * 4 * time.Second
			off, err := d.ask(t, c)
			require.True(t, err == nil && off <= 0 && off > -time.Second, "answer", i, "is off by", off, err)
			time.Sleep(1300 * time.Millisecond)
		}
		n := c.DisbelievedDates()
		assert.True(t, n <= 0, n, "were not believed")
	})
}

func TestATimeThatCannotBeKnownIsAnError(t *testing.T) {
	alternate := func(n int) string {
		return time.Now().Add(time.Duration(1+n%3) * time.Hour).UTC().Format(http.TimeFormat)
	}
	for name, test := range map[string]struct {
		wrong func(n int) string
		want  error
	}{
		"a clock that was never set":              {func(int) string { return epoch }, errUnsetDate},
		"answers that contradict each other":      {alternate, errDatesDisagree},
		"a Date that nobody can read":             {func(int) string { return "today" }, errNoDate},
		"one that cannot be read after the first": {func(n int) string { return strings.Repeat("x", min(1, n-1)) }, errNoDate},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dating{wrong: test.wrong}
				c := d.client(t)
				for range 3 {
					_, err := d.ask(t, c)
					require.ErrorIs(t, failureOf(t, err), test.want, err)
					require.True(t, len(d.requests) <= 3*(maxClockRequests+1), len(d.requests), "requests")
				}
			})
		})
	}
	t.Run("so is one that nothing confirms any more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := &dating{}
			c := d.client(t)
			require.Value(d.ask(t, c))(t)
			d.wrong = alternate
			for n := 0; ; n++ {
				_, err := d.ask(t, c)
				if errors.Is(err, errDatesDisagree) {
					break
				}
				require.True(t, n <= 3, "after", n, "answers it is believed still")
			}
			d.wrong = nil
			assert.True(t, require.Value(d.ask(t, c))(t).Abs() <= 2*time.Second, "off by")
		})
	})
	t.Run("a stop ends the asking", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := &dating{wrong: func(n int) string {
			if n == 3 {
				cancel()
			}
			return alternate(n)
		}}
		err := d.client(t).SearchDetections(ctx, anySearch, new(Page))
		assert.True(t, errors.Is(err, errDatesDisagree) || errors.Is(err, context.Canceled), err)
	})
}

func TestAWrongDateCausesNoLongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dating{}
		c := d.client(t)
		require.Value(d.ask(t, c))(t)
		until := time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat)
		c.link.http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			return respond(r, 503, http.Header{"Date": {epoch}, "Retry-After": {until}}, "")
		})
		_, err := d.ask(t, c)
		e := failureOf(t, err)
		assert.True(t, e.RetryAfter >= 29*time.Second && e.RetryAfter <= 31*time.Second, "a wait of", e.RetryAfter)
	})
}

func TestAClockIsFollowedAfterAnswersThatContradictEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dating{}
		c := d.client(t)
		require.Value(d.ask(t, c))(t)
		d.requests = nil
		d.wrong = func(n int) string {
			return time.Now().Add(time.Duration(1+n%3) * time.Hour).UTC().Format(http.TimeFormat)
		}
		for range 10 {
			_, err := d.ask(t, c)
			require.ErrorIs(t, err, errDatesDisagree)
		}
		assert.Equal(t, c.DisbelievedDates(), uint64(len(d.requests)), "answers are counted as disbelieved, want", len(d.requests))
		d.wrong, d.ahead, d.requests = nil, 20*time.Hour, nil
		off, err := d.ask(t, c)
		assert.True(t, err == nil && off.Abs() <= 2*time.Second && len(d.requests) == agreeingDates, "the time is off by", off, len(d.requests), "requests", err)
	})
}
