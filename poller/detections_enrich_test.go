package poller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// directory is the part of an appliance that detections are enriched from.
type directory struct {
	devices  map[int64]string // objects by id
	formats  string           // the whole answer
	requests []string         // the ids that were asked for, or "formats"
	hang     bool
	status   int // 0: 200
	header   http.Header
}

func newDirectory() *directory {
	return &directory{
		devices: map[int64]string{
			25769803777: `{"id":25769803777,"display_name":"dc1","load":1.10,"big":9007199254740993}`,
			6:           `{ "display_name": "web", "id": 6 }`,
			7:           `{"id":7}`,
		},
		formats: `[{"type":"icmp_tunnel","display_name":"ICMP \"Tunnel\"","is_user_created":false},
			{"type":"shared","display_name":"Shared","is_user_created":false}, {"type":"shared","display_name":"Our own","is_user_created":true},
			{"type":"custom.x","display_name":"X","is_user_created":true}, {"type":"nameless","display_name":null}, {"type":5,"display_name":"five"}]`,
	}
}

func (d *directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var search struct {
		Filter struct{ Operand []int64 }
		Limit  int
	}
	request := "formats"
	if r.URL.Path == "/api/v1/devices/search" {
		if err := json.Unmarshal(body, &search); err != nil || search.Limit != len(search.Filter.Operand) {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		request = strings.Trim(fmt.Sprint(search.Filter.Operand), "[]")
	}
	d.requests = append(d.requests, request)
	if d.hang {
		<-r.Context().Done()
		return
	}
	for name, values := range d.header {
		w.Header()[name] = values
	}
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if d.status != 0 {
		w.WriteHeader(d.status)
		return
	}
	if request == "formats" {
		io.WriteString(w, d.formats)
		return
	}
	var found []string
	for id, object := range d.devices { // in no order
		if slices.Contains(search.Filter.Operand, id) {
			found = append(found, object)
		}
	}
	io.WriteString(w, "["+strings.Join(found, ",")+"]")
}

// asked returns the requests since it was called last.
func (d *directory) asked() string {
	requests := strings.Join(d.requests, ", ")
	d.requests = nil
	return requests
}

// RoundTrip answers without a network, for tests of time.
func (d *directory) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	d.ServeHTTP(recorder, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return recorder.Result(), nil
}

// enricher returns an Enricher of all parts in front of d, and what it logs.
func (d *directory) enricher(t *testing.T, change ...func(*appliance.Options, *poller.EnrichOptions)) (*poller.Enricher, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	a := appliance.Options{URL: "http://sensor.example", Key: func() (string, error) { return "key", nil }, Transport: d}
	o := poller.EnrichOptions{
		Devices: true, Format: true, Link: true, URL: "https://sensor.example",
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	for _, f := range change {
		f(&a, &o)
	}
	client := require.Value(appliance.New(a))(t)
	t.Cleanup(client.Close)
	return poller.NewEnricher(client, o), log
}

// detection is one with these fields beside what all have.
func detection(t *testing.T, id int64, fields string) transform.Detection {
	t.Helper()
	d := require.Value(transform.ParseDetection(fmt.Appendf(nil, `{"id":%d,"mod_time":5%s}`, id, fields), false))(t)
	return d
}

// among is a detection of a type with devices among its participants.
func among(t *testing.T, id int64, kind string, devices ...int64) transform.Detection {
	t.Helper()
	participants := []string{`{"object_type":"ipaddr","object_id":6,"object_value":"192.0.2.1"}`}
	for _, device := range devices {
		participants = append(participants, fmt.Sprintf(`{"object_type":"device","object_id":%d}`, device))
	}
	return detection(t, id, `,"type":"`+kind+`","participants":[`+strings.Join(participants, ",")+`]`)
}

// show writes what is added to each detection in one line.
func show(added []transform.Enrichment) string {
	var lines []string
	for _, a := range added {
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%s", a.Devices, a.Format, a.Link, a.Failed))
	}
	return strings.Join(lines, "\n")
}

func withoutLink(_ *appliance.Options, o *poller.EnrichOptions) { o.Link = false }
func devicesAlone(_ *appliance.Options, o *poller.EnrichOptions) {
	o.Link, o.Format = false, false
}
func formatAlone(_ *appliance.Options, o *poller.EnrichOptions) {
	o.Link, o.Devices = false, false
}

func TestAPageIsEnrichedByOneRequestOfAKind(t *testing.T) {
	d := newDirectory()
	server := httptest.NewServer(d)
	defer server.Close()
	e, log := d.enricher(t, func(a *appliance.Options, o *poller.EnrichOptions) {
		a.URL, a.Transport = server.URL, nil
		o.URL, o.Product = "https://sensor.example/", "Acme"
	})
	const link = "https://sensor.example/acme/#/detections/detail/"
	got := show(e.Enrich(t.Context(), []transform.Detection{
		among(t, 25769804127, "icmp_tunnel", 25769803777, 99, 6, 25769803777),
		among(t, 2, "unheard_of", 6),
		among(t, 3, "nameless", 99),
		detection(t, 4, `,"url":"https://console.example/acme/#/detections/detail/4/?from=1"`),
		detection(t, 5, `,"url":"javascript:x","participants":null`),
	}))
	dc1, web := d.devices[25769803777], d.devices[6]
	want := strings.Join([]string{
		"[" + dc1 + "," + web + `]|ICMP "Tunnel"|` + link + "25769804127|",
		"[" + web + "]||" + link + "2|",
		"[]||" + link + "3|",
		"[]||https://console.example/acme/#/detections/detail/4/?from=1|",
		"[]||" + link + "5|",
	}, "\n")
	assert.Equal(t, got, want, "added")
	assert.Equal(t, d.asked(), "25769803777 99 6, formats", "asked for")
	assert.True(t, log.Len() == 0, "logged", log)
}

func TestWhatIsNotAskedForIsNotAdded(t *testing.T) {
	page := []transform.Detection{among(t, 1, "icmp_tunnel", 6)}
	for name, test := range map[string]struct {
		change      func(*appliance.Options, *poller.EnrichOptions)
		page        []transform.Detection
		want, asked string
	}{
		"devices alone":               {devicesAlone, page, `[{ "display_name": "web", "id": 6 }]|||`, "6"},
		"the format alone":            {formatAlone, page, `|ICMP "Tunnel"||`, "formats"},
		"the link alone":              {func(_ *appliance.Options, o *poller.EnrichOptions) { o.Devices, o.Format = false, false }, page, `||https://sensor.example/service/#/detections/detail/1|`, ""},
		"a page without participants": {withoutLink, []transform.Detection{detection(t, 1, ``)}, `[]|||`, ""},
		"an empty page":               {withoutLink, nil, ``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory()
			e, _ := d.enricher(t, test.change)
			assert.Equal(t, show(e.Enrich(t.Context(), test.page)), test.want, "added")
			assert.Equal(t, d.asked(), test.asked, "asked for")
		})
	}
}

func TestDevicesAreRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		e, _ := d.enricher(t, devicesAlone)
		for _, step := range []struct {
			name   string
			wait   time.Duration
			ids    []int64
			asked  string
			change func()
		}{
			{"both are asked for", 0, []int64{6, 99}, "6 99", nil},
			{"nothing is asked for again", 59 * time.Minute, []int64{99, 6}, "", nil},
			{"only what is missing is", 0, []int64{6, 99, 7}, "7", func() { d.devices[6] = `{"id":6,"new":true}` }},
			{"what is old is, an unknown device too", time.Minute, []int64{6, 99, 7}, "6 99", nil},
		} {
			time.Sleep(step.wait)
			if step.change != nil {
				step.change()
			}
			added := e.Enrich(t.Context(), []transform.Detection{among(t, 1, "x", step.ids...)})
			asked := d.asked()
			assert.True(t, asked == step.asked && added[0].Failed == "", step.name, "asked for", asked, "failed", added)
			assert.Equal(t, strings.Contains(string(added[0].Devices), "new"), (step.asked == "6 99" && step.wait > 0), step.name, added)
		}
	})
}

func TestFewDevicesAreRememberedAndAskedForAtOnce(t *testing.T) {
	d := newDirectory()
	e, _ := d.enricher(t, devicesAlone, func(_ *appliance.Options, o *poller.EnrichOptions) { o.MaxDevices = 2 })
	enrich := func(ids ...int64) string {
		return show(e.Enrich(t.Context(), []transform.Detection{among(t, 1, "x", ids...)}))
	}
	web := d.devices[6]
	got := enrich(6, 99, 7)
	assert.True(t, got == "["+web+"]|||devices" && d.asked() == "6 99", "the third is not left out and reported", got)
	got = enrich(7, 6)
	assert.True(t, got == `[{"id":7},`+web+`]|||` && d.asked() == "7", "what was found earlier is known", got)
	got = enrich(99)
	assert.True(t, got == "[]|||" && d.asked() == "99", "what was used least recently is forgotten", got)
}

func TestDevicesDoNotMakeAnEventTooLarge(t *testing.T) {
	d := newDirectory()
	var ids []int64
	for id := int64(100); id < 400; id++ {
		ids = append(ids, id)
		d.devices[id] = `{"id":` + strconv.FormatInt(id, 10) + `,"description":"` + strings.Repeat("x", 1000) + `"}`
	}
	e, _ := d.enricher(t, devicesAlone)
	added := e.Enrich(t.Context(), []transform.Detection{among(t, 1, "x", ids...), among(t, 2, "x", 399, 6)})
	n := len(added[0].Devices)
	assert.True(t, n <= 256<<10 && n >= 200<<10 && json.Valid(added[0].Devices) && added[0].Failed == "devices", n, "bytes, failed", added)
	assert.True(t, added[1].Failed == "" && strings.HasSuffix(string(added[1].Devices), d.devices[6]+"]"), "the next detection", added)
}

func TestWhatIsRememberedOfADirectoryIsBounded(t *testing.T) {
	d := newDirectory()
	var ids []int64
	for id := range int64(2000) {
		ids = append(ids, id+1)
	}
	for id, size := range map[int64]int{6: 16<<10 + 1, 8: 16 << 10} {
		head := fmt.Sprintf(`{"id":%d,"description":"`, id)
		d.devices[id] = head + strings.Repeat("x", size-len(head)-2) + `"}`
	}
	e, _ := d.enricher(t, devicesAlone)
	added := e.Enrich(t.Context(), []transform.Detection{among(t, 1, "x", ids...), among(t, 2, "x", 6, 7), among(t, 3, "x", 8)})
	assert.True(t, added[2].Failed == "" && string(added[2].Devices) == "["+d.devices[8]+"]", "failed", added[2].Failed, added)
	assert.True(t, added[0].Failed == "devices" && added[1].Failed == "devices" && string(added[1].Devices) == `[{"id":7}]`, "failed", added[0].Failed, added)
	asked := strings.Fields(d.asked())
	assert.Equal(t, len(asked), 1000, "devices were asked for")
}

func TestNamesOfFormatsThatAreTooLongAreLeftOut(t *testing.T) {
	d := newDirectory()
	long := strings.Repeat("x", 256)
	d.formats = fmt.Sprintf(`[{"type":"a","display_name":%q},{"type":"b","display_name":%q},{"type":%q,"display_name":"c"},{"type":%q,"display_name":"d"}]`,
		long, long+"x", long, long+"x")
	e, _ := d.enricher(t, formatAlone)
	got := show(e.Enrich(t.Context(), []transform.Detection{among(t, 1, "a"), among(t, 2, "b"), among(t, 3, long), among(t, 4, long+"x")}))
	assert.Equal(t, got, "|"+long+"||\n|||\n|c||\n|||", "added")
}

func TestFormatsAreAskedForAgainWhenATypeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		e, _ := d.enricher(t, formatAlone)
		for _, step := range []struct {
			name   string
			wait   time.Duration
			fields string
			format string
			asked  string
		}{
			{"a detection without a type needs none", 0, ``, "", ""},
			{"the first type asks for all", 0, `,"type":"icmp_tunnel"`, `ICMP "Tunnel"`, "formats"},
			{"another is known by then", 0, `,"type":"custom.x","is_user_created":true`, "X", ""},
			{"of two with one type it is the custom one's", 0, `,"type":"shared","is_user_created":true`, "Our own", ""},
			{"of two with one type it is the built-in one's", 0, `,"type":"shared"`, "Shared", ""},
			{"a detection need not say which of them it is", 0, `,"type":"custom.x"`, "X", ""},
			{"an unknown one does not ask at once", 0, `,"type":"late"`, "", ""},
			{"nor a little later", 4 * time.Minute, `,"type":"late"`, "", ""},
			{"but after some minutes", time.Minute, `,"type":"late"`, "Late", "formats"},
			{"and what is known does not", 58 * time.Minute, `,"type":"late"`, "Late", ""},
			{"until it is old", 2 * time.Minute, `,"type":"late"`, "Late", "formats"},
		} {
			time.Sleep(step.wait)
			if step.wait > 0 {
				d.formats = `[{"type":"late","display_name":"Late"}]`
			}
			added := e.Enrich(t.Context(), []transform.Detection{detection(t, 1, step.fields)})
			asked := d.asked()
			assert.True(t, asked == step.asked && added[0].Format == step.format && added[0].Failed == "", step.name, "asked for", asked, "format", added, "failed")
		}
	})
}

func TestAnEnrichmentThatFailsIsLeftOutAndNotAskedForAgainForAMinute(t *testing.T) {
	for name, test := range map[string]struct {
		fail  func(*directory)
		delay time.Duration // of a page, for each kind of request
		pause time.Duration
	}{
		"an appliance that hangs":     {func(d *directory) { d.hang = true }, 2 * time.Second, time.Minute},
		"an outage":                   {func(d *directory) { d.status = 500 }, 0, time.Minute},
		"a path that is not there":    {func(d *directory) { d.status = 404 }, 0, time.Minute},
		"a key that may not":          {func(d *directory) { d.status = 403 }, 0, time.Minute},
		"one that is asked too often": {func(d *directory) { d.status, d.header = 429, http.Header{"Retry-After": {"150"}} }, 0, 150 * time.Second},
		"one that asks for little":    {func(d *directory) { d.status, d.header = 503, http.Header{"Retry-After": {"5"}} }, 0, time.Minute},
		"a page of HTML":              {func(d *directory) { d.formats, d.devices = "<html>", map[int64]string{6: "<html>"} }, 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDirectory()
				e, log := d.enricher(t, withoutLink)
				page := []transform.Detection{among(t, 1, "icmp_tunnel", 6), detection(t, 2, ``)}
				enrich := func(want, asked string, delay time.Duration) {
					t.Helper()
					began := time.Now()
					assert.Equal(t, show(e.Enrich(t.Context(), page)), want, "added")
					assert.Equal(t, time.Since(began), delay, "the page was delayed by")
					assert.Equal(t, d.asked(), asked, "asked for")
				}
				const without = "|||devices,format\n[]|||"
				test.fail(d)
				enrich(without, "6, formats", 2*test.delay)
				for range 3 {
					enrich(without, "", 0)
				}
				time.Sleep(test.pause - 2*test.delay - time.Second)
				enrich(without, "", 0)
				time.Sleep(2*test.delay + time.Second)
				enrich(without, "6, formats", 2*test.delay)
				n := strings.Count(log.String(), "level=WARN")
				assert.True(t, n == 2 && strings.Count(log.String(), "\n") == 2, "logged", log)

				*d = *newDirectory()
				time.Sleep(test.pause)
				enrich("["+d.devices[6]+`]|ICMP "Tunnel"||`+"\n[]|||", "6, formats", 0)
				n = strings.Count(log.String(), "level=INFO")
				assert.True(t, n == 2 && strings.Count(log.String(), "\n") == 4, "logged", log)
			})
		})
	}
}

func TestWhatIsRememberedIsAddedThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		e, _ := d.enricher(t, withoutLink)
		e.Enrich(t.Context(), []transform.Detection{among(t, 1, "icmp_tunnel", 6)})
		d.status = 500
		time.Sleep(10 * time.Minute)
		got := show(e.Enrich(t.Context(), []transform.Detection{
			among(t, 1, "icmp_tunnel", 6), among(t, 2, "icmp_tunnel", 6, 7), among(t, 3, "late", 7),
		}))
		web := d.devices[6]
		want := "[" + web + `]|ICMP "Tunnel"||` + "\n[" + web + `]|ICMP "Tunnel"||devices` + "\n|||devices,format"
		assert.Equal(t, got, want, "added")
		time.Sleep(time.Hour)
		assert.Equal(t, show(e.Enrich(t.Context(), []transform.Detection{among(t, 1, "icmp_tunnel", 6)})), `|ICMP "Tunnel"||devices`)
	})
}

func TestAnEnrichmentDoesNotWaitForTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		e, _ := d.enricher(t, withoutLink, func(a *appliance.Options, _ *poller.EnrichOptions) { a.RateLimit = 0.1 })
		began := time.Now()
		added := e.Enrich(t.Context(), []transform.Detection{among(t, 1, "icmp_tunnel", 6)})
		took := time.Since(began)
		assert.True(t, took <= 2*time.Second && added[0].Failed == "format" && d.asked() == "6", "failed", added, took)
	})
}

func TestAnEnrichmentEndsWithTheBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		d.hang = true
		e, log := d.enricher(t, devicesAlone)
		page := []transform.Detection{among(t, 1, "x", 6)}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		began := time.Now()
		if added := e.Enrich(ctx, page); added[0].Failed != "devices" || time.Since(began) != 300*time.Millisecond {
			t.Errorf("failed %q after %s", added[0].Failed, time.Since(began))
		}
		d.hang = false
		d.asked()
		added := e.Enrich(t.Context(), page)
		assert.True(t, added[0].Failed == "" && d.asked() == "6" && log.Len() <= 0, "failed", added[0].Failed, "logged", log)
	})
}

func TestOnlyWhatBecomesAnEventIsEnrichedAndAPageAtOnce(t *testing.T) {
	w := newWorld(t)
	var calls []string
	w.options.Enrich = func(_ context.Context, detections []transform.Detection) []transform.Enrichment {
		added := make([]transform.Enrichment, len(detections))
		call := ""
		for i, d := range detections {
			id := strconv.FormatInt(d.ID, 10)
			call += " " + id
			added[i] = transform.Enrichment{Link: "https://sensor.example/" + id}
			if d.ID == 2 {
				added[i].Failed = "devices"
			}
		}
		calls = append(calls, strings.TrimSpace(call))
		return added
	}
	w.options.PageSize = 20
	w.restart()
	w.mustPoll()
	for range 4 {
		w.add(w.clock)
	}
	w.touch(w.rows[3], w.clock)
	broken := *w.rows[4]
	broken.broken = true
	w.show(&broken)
	w.clock++
	w.mustPoll()
	w.mustPoll() // all of them are known
	assert.Equal(t, strings.Join(calls, "; "), "1 2 3", "enriched")
	again := w.rows[1]
	w.touch(again, w.clock)
	w.clock++
	w.mustPoll()
	assert.Equal(t, strings.Join(calls, "; "), "1 2 3; 1", "enriched")
	require.Equal(t, len(w.events), 4, "events")
	for _, e := range w.events {
		var data struct{ Link string }
		require.NoError(t, json.Unmarshal(e.Data(), &data))
		failed := map[string]string{"2": "devices"}[e.Subject]
		assert.True(t, data.Link == "https://sensor.example/"+e.Subject && e.Unenriched == failed, "event", e.ID, "has the link", data.Link, "and lacks", e.Unenriched)
	}
}
