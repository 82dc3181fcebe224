package appliance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestHazards(t *testing.T) {
	// always is how every test asks.
	always := func(t *testing.T, h standin.Hazards) (reply, error) {
		t.Helper()
		a, c := serve(t, standin.Options{Seed: 5})
		a.AddMany(20)
		a.SetHazards(h)
		return c.send("POST", "/api/v1/detections/search", `{"limit":20}`)
	}
	answered := func(t *testing.T, h standin.Hazards) reply {
		t.Helper()
		got := require.Value(always(t, h))(t)
		return got
	}

	t.Run("a reset has no answer", func(t *testing.T) {
		_, err := always(t, standin.Hazards{Reset: 1})
		assert.True(t, errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF), "the error", err)
	})
	for name, test := range map[string]struct {
		hazards standin.Hazards
		status  int
		header  string // the value of which starts with want, or which is absent
		want    string
	}{
		"429 says when to come back in seconds":    {standin.Hazards{TooManyRequests: 1, RetryAfter: 1500 * time.Millisecond}, 429, "Retry-After", "2"},
		"429 says when to come back as a date":     {standin.Hazards{TooManyRequests: 1, RetryAfter: 10 * time.Second, RetryAfterDate: true}, 429, "Retry-After", epoch.Add(10 * time.Second).Format(http.TimeFormat)},
		"429 says nothing about when to come back": {standin.Hazards{TooManyRequests: 1}, 429, "Retry-After", ""},
		"a server error can be chosen":             {standin.Hazards{ServerError: 1, ServerErrorStatus: 503, RetryAfter: time.Second}, 503, "Retry-After", "1"},
		"HTML comes with 200":                      {standin.Hazards{HTML: 1}, 200, "Content-Type", "text/html"},
		"a limit that is too high is refused":      {standin.Hazards{LimitRefused: 19}, 400, "Retry-After", ""},
		"a limit that is not too high is not":      {standin.Hazards{LimitRefused: 20}, 200, "Retry-After", ""},
		"there need not be a Date":                 {standin.Hazards{NoDate: true}, 200, "Date", ""},
		"a Date need not be one":                   {standin.Hazards{Date: "soon"}, 200, "Date", "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			got := answered(t, test.hazards)
			value := got.header.Get(test.header)
			assert.True(t, got.status == test.status && strings.HasPrefix(value, test.want) && (test.want != "" || value == ""), got)
		})
	}
	t.Run("a server error is one of four", func(t *testing.T) {
		got := answered(t, standin.Hazards{ServerError: 1})
		assert.True(t, slices.Contains([]int{500, 502, 503, 504}, got.status), got)
	})
	for _, upgrade := range standin.Upgrades() {
		t.Run("an upgrade shows the same objects written differently, with times as "+string(upgrade), func(t *testing.T) {
			a, c := serve(t, standin.Options{Seed: 5})
			v := a.AddMany(1)[0]
			entry := a.AddAudit(1)[0]
			a.AddRecords(1)
			a.SetHazards(standin.Hazards{Upgrade: upgrade})
			modTime := map[standin.Upgrade]string{
				standin.UpgradeFraction: fmt.Sprintf("%d.25", v.ModTime),
				standin.UpgradeMillis:   fmt.Sprint(v.ModTime / 1000 * 1000),
				standin.UpgradeSeconds:  fmt.Sprint(v.ModTime / 1000),
			}[upgrade]
			for _, request := range []struct{ method, path, body, want string }{
				{"POST", "/detections/search", `{"limit":20}`, fmt.Sprintf(`"mod_time":"%s"`, modTime)},
				{"GET", fmt.Sprintf("/detections/%d", v.ID), ``, fmt.Sprintf(`"id":"%d"}`, v.ID)},
				{"GET", "/auditlog", ``, fmt.Sprintf(`"id":"%d"}`, entry.ID)},
				{"POST", "/records/search", `{"from":1,"until":9999999999999}`, `"total":"1"`},
			} {
				got, err := c.send(request.method, "/api/v1"+request.path, request.body)
				if err != nil || !json.Valid([]byte(got.body)) || !strings.Contains(got.body, request.want) || !strings.Contains(got.body, `"since_upgrade":`) {
					t.Errorf("%s answers %+v (%v), want %s", request.path, got, err, request.want)
				}
			}
		})
	}
	t.Run("an answer that is lost is one to a request that was served", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		id := a.AddMany(1)[0].ID
		a.SetHazards(standin.Hazards{Lost: 1})
		_, err := c.send("PATCH", fmt.Sprintf("/api/v1/detections/%d", id), `{"assignee":"radia"}`)
		assert.True(t, errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF), "the error", err)
		assert.Equal(t, a.Latest()[0].Assignee, "radia", "the assignee is")
	})
	t.Run("a body that is cut ends too early", func(t *testing.T) {
		got := answered(t, standin.Hazards{CutBody: 1})
		assert.True(t, errors.Is(got.err, io.ErrUnexpectedEOF) && fmt.Sprint(len(got.body)) != got.header.Get("Content-Length"), "read", len(got.body), "bytes", got.err)
	})
	t.Run("JSON that is cut has the right length", func(t *testing.T) {
		got := answered(t, standin.Hazards{CutJSON: 1})
		if got.err != nil || got.status != 200 || json.Valid([]byte(got.body)) || fmt.Sprint(len(got.body)) != got.header.Get("Content-Length") {
			t.Errorf("read %d bytes of %s: %v", len(got.body), got.header.Get("Content-Length"), got.err)
		}
	})
	t.Run("a refused key has many answers", func(t *testing.T) {
		for refusal, want := range map[standin.Refusal]string{
			standin.RefusedJSON:      `401 {"error_message":"Invalid access token"}`,
			standin.RefusedText:      "400 The specified access token is invalid",
			standin.RefusedShortText: "400 invalid\n",
			standin.RefusedForbidden: `403 {"error_message":"the owner of this key may not do this"}`,
		} {
			got := answered(t, standin.Hazards{Refusal: refusal})
			assert.Equal(t, fmt.Sprint(got.status, " ", got.body), want)
		}
	})
	t.Run("a capped limit gives less than was asked for", func(t *testing.T) {
		got := idsOf(t, answered(t, standin.Hazards{LimitCap: 7}).body)
		assert.Equal(t, len(got), 7, "found", got)
	})
	t.Run("some Dates are wrong", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.SetHazards(standin.Hazards{WrongDate: 0.3})
		off := make(map[bool]int)
		for range 100 {
			date := require.Value(http.ParseTime(c.want(200, "GET", "/service", "").header.Get("Date")))(t)
			off[date.Sub(a.Clock()).Abs() > time.Minute]++
		}
		assert.True(t, off[true] >= 10 && off[false] >= 40, off[true], "of 100 are")
	})
	t.Run("latency outlives nobody's patience", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.SetHazards(standin.Hazards{Latency: time.Hour})
		c.client.Timeout = 20 * time.Millisecond
		_, err := c.send("GET", "/api/v1/service", "")
		failed, ok := errors.AsType[*url.Error](err)
		assert.True(t, ok && failed.Timeout(), "the error", err)
	})
	t.Run("only some requests meet them", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.SetHazards(standin.Hazards{
			ServerError: 1, ServerErrorStatus: 500,
			Only: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/search") },
		})
		c.want(500, "POST", "/detections/search", "{}")
		c.want(200, "GET", "/service", "")
	})
}

func TestShuffledTies(t *testing.T) {
	a, c := serve(t, standin.Options{Seed: 9, Size: 1000})
	a.AddTied(50, now-1)
	a.AddTied(1, now)
	body := sorted("mod_time", "asc", "id", "asc")
	inOrder := c.search(body)
	a.SetHazards(standin.Hazards{ShuffledTies: true})
	got := c.search(body)
	assert.True(t, !slices.Equal(got, inOrder) && got[50] == inOrder[50], "found", got)
	wantIDs(t, c.search(body), got...)
}

// withoutLinkTimes returns an object's JSON with zeros for the times of every link.
func withoutLinkTimes(object string) string {
	digit := regexp.MustCompile(`[0-9]`)
	return regexp.MustCompile(`(from|until)=[0-9]+`).ReplaceAllStringFunc(object, func(parameter string) string {
		return digit.ReplaceAllString(parameter, "0")
	})
}

func TestChangingLinks(t *testing.T) {
	a, c := serve(t, standin.Options{Seed: 2})
	v := a.AddMany(1)[0]
	a.SetHazards(standin.Hazards{ChangingLinks: true})
	path := fmt.Sprintf("/detections/%d", v.ID)
	first := c.want(200, "GET", path, "").body
	a.SetSkew(time.Hour)
	second := c.want(200, "GET", path, "").body
	switch rest := withoutLinkTimes(string(v.JSON)); {
	case first == second || first == string(v.JSON):
		t.Error("the links did not change")
	case withoutLinkTimes(first) != rest, withoutLinkTimes(second) != rest:
		t.Error("something else than the links changed")
	}
	address := func(body string) string { return body[strings.Index(body, `"url":`):] }
	assert.Equal(t, address(first), address(second), "the detection's own url changed")
}

func TestSkew(t *testing.T) {
	a, c := serve(t, standin.Options{})
	for _, skew := range []time.Duration{0, 17 * time.Minute, -17 * time.Minute} {
		t.Run("Date and mod_time are off by "+skew.String(), func(t *testing.T) {
			a.SetSkew(skew)
			v := a.AddMany(1)[0]
			assert.Equal(t, v.ModTime, epoch.Add(skew).UnixMilli(), "mod_time is")
			got := c.want(200, "GET", "/service", "").header.Get("Date")
			assert.Equal(t, got, epoch.Add(skew).Format(http.TimeFormat), "Date is")
			wantIDs(t, c.search(strings.Replace(sorted("mod_time", "asc"), "{", `{"mod_time":"-1ms","limit":1,`, 1)), v.ID)
		})
	}
}
