package admin_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestNewClientRejectsInvalidAddresses(t *testing.T) {
	for _, address := range []string{"http://operator:s3cret@127.0.0.1:9600", "", "127.0.0.1:9600", "ftp://127.0.0.1", "http://", "http://%"} {
		_, err := admin.NewClient(address, "")
		assert.True(t, err != nil && strings.Contains(err.Error(), "such as http://127.0.0.1:9600"), address, err)
	}
}

func TestClientStatus(t *testing.T) {
	c := newControl(t)
	c.status = admin.Status{
		Version: "1.2.3", Running: true, Started: time.Unix(1, 0).UTC(),
		State: admin.StateStatus{Path: "/state.db", FileBytes: 4096, Journal: admin.Journal{Events: 1 << 60, Bytes: 5, MaxBytes: 6, Full: true}},
		Appliances: []admin.ApplianceStatus{{Name: "hq", URL: "https://hq.example", Streams: []admin.StreamStatus{
			{Stream: "records/dns", Failures: 2, Error: "a <b>", Backlog: &admin.Backlog{At: time.Unix(2, 0).UTC(), BehindSeconds: 0.5}},
		}}},
		Sinks:        []admin.SinkStatus{{Name: "lake", Kind: "kafka", State: "halted", LagEvents: 7, Oldest: time.Unix(3, 0).UTC(), FillsJournalInSeconds: 60}},
		Unconfigured: []admin.SinkStatus{{Name: "old"}},
	}
	client, _ := serve(t, c)
	got := require.Value(client.Status(t.Context()))(t)
	assert.DeepEqual(t, got, c.status)
}

func TestClientHistory(t *testing.T) {
	c := newControl(t)
	c.history = admin.History{
		StepSeconds: 15, Until: time.Unix(1, 0).UTC(), Journal: admin.JournalHistory{Bytes: []*int64{nil, new(int64(7))}},
		Streams: []admin.StreamHistory{{Appliance: "hq", Stream: "detections", EventsPerSecond: []*float64{nil, new(0.0)}, LagSeconds: []*float64{nil, new(1.5)}}},
		Sinks:   []admin.SinkHistory{{Sink: "lake", EventsPerSecond: []*float64{nil, nil}, LagEvents: []*uint64{nil, new(uint64(1 << 60))}, LagSeconds: []*float64{new(2.0), nil}}},
	}
	client, server := serve(t, c)
	got := require.Value(admin.API.GetHistory.Call(t.Context(), client, admin.None{}))(t)
	assert.DeepEqual(t, got, c.history)
	const want = `{"step_seconds":15,"until":"1970-01-01T00:00:01Z","journal":{"bytes":[null,7]},` +
		`"streams":[{"appliance":"hq","stream":"detections","events_per_second":[null,0],"lag_seconds":[null,1.5]}],` +
		`"sinks":[{"sink":"lake","events_per_second":[null,null],"lag_events":[null,1152921504606846976],"lag_seconds":[2,null]}]}`
	_, body := request(t, "GET", server.URL+"/api/v1/history", "", token)
	assert.Equal(t, strings.TrimSpace(body), want, body)
	c.err = admin.ErrNotRunning
	_, err := admin.API.GetHistory.Call(t.Context(), client, admin.None{})
	assert.True(t, err != nil && err.Error() == admin.ErrNotRunning.Error(), err, "want that the bridge does not run")
}

func TestClientDelivery(t *testing.T) {
	c := newControl(t)
	client, _ := serve(t, c)
	c.journal(t, 10, `{}`)
	c.deliver(t, 0)
	ctx := t.Context()

	n, err := admin.API.ReplayEvents.Call(ctx, client, admin.ReplayRequest{OfSink: admin.OfSink{Sink: "lake"}, Replay: admin.Replay{Since: time.Unix(4, 0)}})
	assert.True(t, n.Events == 7 && err == nil, n, "events are replayed", err, "want the 7 from the fourth on")
	n, err = admin.API.ReplayEvents.Call(ctx, client, admin.ReplayRequest{OfSink: admin.OfSink{Sink: "lake"}, Replay: admin.Replay{Since: time.Unix(11, 0)}})
	assert.True(t, n.Events == 0 && err == nil, n, "events are replayed", err, "want none: the last is older")
	n, err = admin.API.ReplayEvents.Call(ctx, client, admin.ReplayRequest{OfSink: admin.OfSink{Sink: "lake"}, Replay: admin.Replay{Since: time.Unix(4, 0), Until: time.Unix(6, 0), DryRun: true}})
	assert.True(t, n.Events == 2 && err == nil, n, "events would be replayed", err, "want the fourth and the fifth")
	_, err = admin.API.ReplayEvents.Call(ctx, client, admin.ReplayRequest{OfSink: admin.OfSink{Sink: "lake"}, Replay: admin.Replay{Since: time.Unix(4, 0), Until: time.Unix(4, 0)}})
	assert.True(t, err != nil && strings.Contains(err.Error(), "until must be after since"), err, "of an empty period")
	paused := func() bool {
		stats := require.Value(c.store.Stats(ctx))(t)
		return !stats.Sinks["lake"].PausedSince.IsZero()
	}
	if err := admin.API.PauseSink.Do(ctx, client, admin.OfSink{Sink: "lake"}); err != nil || !paused() {
		t.Errorf("paused %t (%v), want true", paused(), err)
	}
	if err := admin.API.ResumeSink.Do(ctx, client, admin.OfSink{Sink: "lake"}); err != nil || paused() {
		t.Errorf("paused %t (%v), want false", paused(), err)
	}
	for _, err := range []error{admin.API.PauseSink.Do(ctx, client, admin.OfSink{Sink: "a/../b"}), admin.API.ResumeSink.Do(ctx, client, admin.OfSink{Sink: ".."})} {
		assert.True(t, errors.Is(err, admin.ErrUnknown) && strings.Contains(err.Error(), "sink/"), err, "want that the sink is unknown")
	}
}

func TestClientReload(t *testing.T) {
	c := newControl(t)
	client, server := serve(t, c)
	want := []string{"sink lake: changed", "appliance hq: removed"}
	c.reload.Changes = want
	assert.DeepEqual(t, require.Value(client.Reload(t.Context()))(t).Changes, want)
	c.reload.Changes = nil
	_, body := request(t, http.MethodPost, server.URL+"/api/v1/reload", "", token)
	assert.Equal(t, strings.TrimSpace(body), `{"changes":[]}`, "without a change", body)
	c.err = errors.New("sinks[0]: name is missing")
	_, err := client.Reload(t.Context())
	assert.True(t, err != nil && err.Error() == c.err.Error() && errors.Is(err, admin.ErrConfiguration), err, c.err, "which is an error of the configuration")
	c.err = admin.ErrBusy
	_, err = client.Reload(t.Context())
	assert.True(t, err != nil && !errors.Is(err, admin.ErrConfiguration), err, "want one that is not of the configuration")
}

func TestClientRewindAndVerify(t *testing.T) {
	c := newControl(t)
	client, _ := serve(t, c)
	to := time.Unix(5, 7).UTC()
	err := admin.API.Rewind.Do(t.Context(), client, admin.RewindRequest{Appliance: detections.Appliance, Stream: detections.Stream, To: to})
	assert.True(t, err == nil && c.rewoundTo.Equal(to), "rewound to", c.rewoundTo, err, to)
	assert.ErrorIs(t, admin.API.Rewind.Do(t.Context(), client, admin.RewindRequest{Appliance: "branch", Stream: "audit", To: to}), admin.ErrUnknown)

	difference := poller.Difference{Kind: poller.DiffMissing, Stream: "detections", ID: "25769804127"}
	verification := poller.Verification{Stream: "detections", Since: to, Compared: 3, Differences: map[string]int{poller.DiffMissing: 1}}
	for _, test := range []struct {
		name   string
		end    error
		broken bool
		want   string // of the error; empty: none
	}{
		{name: "a comparison is reported as it proceeds", want: ""},
		{name: "an error that ended it is returned", end: errors.New("the appliance answered 503"), want: "the appliance answered 503"},
		{name: "a truncated response is an error", broken: true, want: "broke off"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.verify = func(report poller.VerifyReport) ([]poller.Verification, error) {
				report.Progress("detections", 3, to)
				report.Found(difference)
				if test.broken {
					panic(http.ErrAbortHandler)
				}
				return []poller.Verification{verification}, test.end
			}
			var found []poller.Difference
			compared := 0
			got, err := client.Verify(t.Context(), "hq", to, poller.VerifyReport{
				Progress: func(_ string, n int, _ time.Time) { compared = n },
				Found:    func(d poller.Difference) { found = append(found, d) },
			})
			assert.True(t, message(err) == test.want || test.want != "" && strings.Contains(message(err), test.want), err, test.want)
			assert.Equal(t, compared, 3, "compared")
			assert.DeepEqual(t, found, []poller.Difference{difference}, "found")
			assert.True(t, test.broken || reflect.DeepEqual(got, []poller.Verification{verification}), got, verification)
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestClientReportsForeignResponses(t *testing.T) {
	for _, c := range []struct {
		name, body, contentType string
		status                  int
		want                    string
	}{
		{"a proxy's page", "<html>Bad Gateway</html>", "text/html", 502, "502 Bad Gateway"},
		{"a page with 200", "<html>Login</html>", "text/html", 200, "read the bridge's answer"},
		{"a problem without a detail", "{}", "application/problem+json", 500, "500 Internal Server Error"},
		{"nothing", "", "application/json", 200, "read the bridge's answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			client := require.Value(admin.NewClient(server.URL, token))(t)
			_, err := client.Status(t.Context())
			assert.True(t, err != nil && strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), token), err, c.want)
		})
	}
	t.Run("nobody", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		client := require.Value(admin.NewClient(server.URL, token))(t)
		assert.ErrorContains(t, client.Backup(t.Context(), &bytes.Buffer{}), "ask the bridge")
	})
}
