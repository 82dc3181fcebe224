package datadog

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// openAt opens the preset with a clock.
func openAt(s webhook.PresetSettings, now func() time.Time) (*webhook.Preset, error) {
	spec := Spec()
	spec.New = func(s webhook.PresetSettings, target *url.URL) (*webhook.Preset, error) {
		return open(s, target, now), nil
	}
	return spec.Open(s)
}

func at(string) (*webhook.Preset, error) {
	now := func() time.Time { return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC) } // of presettest's events
	return openAt(webhook.PresetSettings{Key: "dd-secret-key", Tags: []string{"env:prod"}}, now)
}

// intake answers as Datadog does, but that it refuses a log that it would cut.
type intake struct{ ids []string }

func (in *intake) answer(r presettest.Request) presettest.Reply {
	if r.Header.Get("DD-API-KEY") != "dd-secret-key" {
		return presettest.Reply{Status: http.StatusForbidden, Body: `{"errors":[{"status":"403","title":"Forbidden"}]}`}
	}
	if len(r.Body) > 5_000_000 {
		return presettest.Reply{Status: http.StatusRequestEntityTooLarge}
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(r.Body, &raw); err != nil || len(raw) > 1000 || len(raw) == 0 {
		return presettest.Reply{Status: http.StatusBadRequest}
	}
	for _, one := range raw {
		var log struct {
			Message, DDSource, DDTags, Hostname, Service, Status, Timestamp string
			Event                                                           struct{ ID string }
		}
		err := json.Unmarshal(one, &log)
		var timeErr error
		if log.Timestamp != "" {
			_, timeErr = time.Parse(time.RFC3339, log.Timestamp)
		}
		if err != nil || timeErr != nil || len(one) > 1_000_000 || log.Message == "" || log.DDSource != "ndrbridge" || log.Hostname != "hq" ||
			!strings.HasSuffix(log.DDTags, ",env:prod") || log.Event.ID == "" {
			return presettest.Reply{Status: http.StatusBadRequest, Body: string(one[:min(len(one), 200)])}
		}
		in.ids = append(in.ids, log.Event.ID)
	}
	return presettest.Reply{Status: http.StatusAccepted, Body: "{}"}
}

func TestEveryKindOfEventIsALog(t *testing.T) {
	presettest.EveryKind(t, func() func(presettest.Request) presettest.Reply { return new(intake).answer }, at)
}

func TestDocumentsAreLogs(t *testing.T) {
	e := presettest.Events(t)[0].Event
	for _, test := range []struct {
		name                                  string
		format                                format.Name
		contentType, document, message, event string
	}{
		{"JSON is the attribute event", format.OCSF, "application/json", `{"class_uid":2004}`, "", `{"class_uid":2004}`},
		{"text is the message", format.CEF, "text/plain; charset=utf-8", `CEF:0|a\|b|"c"`, `CEF:0|a\|b|"c"`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := openAt(webhook.PresetSettings{Key: "dd-secret-key", Format: test.format}, time.Now)
			require.NoError(t, err)
			request, err := p.Compose([]transform.Event{e.WithDocument(test.contentType, []byte(test.document))})
			require.NoError(t, err)
			var logs []struct {
				Message, Hostname string
				Event             json.RawMessage
			}
			if err := json.Unmarshal(request.Body, &logs); err != nil || len(logs) != 1 {
				t.Fatalf("%v: %s", err, request.Body)
			}
			if test.message != "" && logs[0].Message != test.message || logs[0].Message == "" || logs[0].Hostname != "hq" || string(logs[0].Event) != test.event {
				t.Errorf("%s", request.Body)
			}
		})
	}
}

func TestATimeThatTheIntakeRejectsIsOmitted(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	p := require.Value(openAt(webhook.PresetSettings{Key: "dd-secret-key"}, func() time.Time { return now }))(t)
	for _, test := range []struct {
		name string
		age  time.Duration
		want bool
	}{
		{"of now", 0, true},
		{"of 17 hours ago", 17 * time.Hour, true},
		{"older", 17*time.Hour + time.Millisecond, false},
		{"of last week", 7 * 24 * time.Hour, false},
		{"an hour ahead", -time.Hour, true},
		{"further ahead", -time.Hour - time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := transform.New(transform.Attributes{ID: "1-2", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created",
				Time: now.Add(-test.age), Appliance: "hq"}, []byte(`{"detection":{"id":1}}`))
			require.NoError(t, err)
			request := require.Value(p.Compose([]transform.Event{e}))(t)
			var logs []struct {
				Timestamp string
				Event     struct{ Time time.Time }
			}
			require.NoError(t, json.Unmarshal(request.Body, &logs))
			if (logs[0].Timestamp != "") != test.want || !logs[0].Event.Time.Equal(e.Time) {
				t.Errorf("%s", request.Body)
			}
		})
	}
}

func TestRequestsStayWithinTheLimitsOfTheIntake(t *testing.T) {
	for _, test := range []struct {
		name                   string
		logs, size, inRequests int
	}{
		{"many small logs", 1001, 0, 2},
		{"few large logs", 6, 900_000, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := &intake{}
			s := presettest.Serve(t, in.answer)
			require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, ""), sinktest.Events(test.logs, 5, test.size)...))
			assert.Equal(t, len(in.ids), test.logs, "logs in")
			assert.Equal(t, len(s.Requests()), test.inRequests, "logs in", "requests")
		})
	}
}

func TestALogThatDatadogWouldTruncateIsRejectedAndTheOthersArrive(t *testing.T) {
	for large := range 3 {
		in := &intake{}
		s := presettest.Serve(t, in.answer)
		events := sinktest.Events(3, 3, 0)
		events[large] = sinktest.Events(1, 1, 1_000_001)[0]
		each, ok := presettest.Send(t, s.URL, presettest.Open(t, at, ""), events...).(failure.EventErrors)
		if !ok || len(in.ids) != 2 {
			t.Fatalf("%d logs arrived", len(in.ids))
		}
		for i, err := range each {
			if class, _ := presettest.Result(err); (class == failure.Rejected) != (i == large) {
				t.Errorf("event %d of those with a large one at %d: %v", i, large, err)
			}
		}
	}
}

func TestDatadogsAnswers(t *testing.T) {
	text := func(status int) presettest.Reply { return presettest.Reply{Status: status} }
	presettest.Answers(t, presettest.Events(t)[0].Event, at, []presettest.Case{
		{Name: "accepted is durable", Reply: text(202)},
		{Name: "a bad request is rejected", Reply: text(400), Class: failure.Rejected},
		{Name: "a missing key halts", Reply: text(401), Class: failure.Halted},
		{Name: "an invalid key halts", Reply: text(403), Class: failure.Halted},
		{Name: "a timeout passes", Reply: text(408), Class: failure.Transient},
		{Name: "too large is rejected", Reply: text(413), Class: failure.Rejected},
		{Name: "too many wait", Reply: text(429), Class: failure.Throttled},
		{Name: "a server that fails passes", Reply: text(500), Class: failure.Transient},
	})
}

func TestConformance(t *testing.T) {
	presettest.Conformance(t, presettest.Store{
		Open: func(string) (*webhook.Preset, error) {
			return openAt(webhook.PresetSettings{Key: "s3cret-key"}, time.Now)
		},
		Unpack: func(body []byte) (all [][]byte, err error) {
			var logs []struct{ Event json.RawMessage }
			err = json.Unmarshal(body, &logs)
			for _, log := range logs {
				all = append(all, log.Event)
			}
			return all, err
		},
		Answer:  presettest.Whole(http.StatusAccepted, `{}`),
		Options: webhook.Options{Concurrency: 4, Gzip: true},
	})
}

func TestKeysAreCheckedAtTheAPIOfTheSite(t *testing.T) {
	const intake = "http-intake.logs.site.example"
	api := presettest.API("DD-API-KEY", presettest.CheckKey, func(w http.ResponseWriter, _ *http.Request) {
		presettest.JSON(w, http.StatusForbidden, `{"errors":["Forbidden"]}`)
	},
		map[string]string{"GET /api/v1/validate": `200 {"valid":true}`})
	// The names are fictitious: they are reached through a proxy, which receives the host.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, r.Host, "api.site.example", "was asked")
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	proxy := require.Value(url.Parse(server.URL))(t)
	for name, test := range map[string]struct {
		host, key string
		want      findingtest.Row
	}{
		"a valid key":                  {intake, presettest.CheckKey, presettest.Row("key", finding.OK, "knows", "")},
		"a wrong key":                  {intake, "wrong-key", presettest.Row("key", finding.Failed, "403", "application key")},
		"a relay, which is not a site": {"relay.example", presettest.CheckKey, presettest.Row("delivery", finding.Untried, "cannot be checked", "ndrbridge try render")},
	} {
		t.Run(name, func(t *testing.T) {
			preset, err := openAt(webhook.PresetSettings{URL: "http://" + test.host + "/api/v2/logs", Key: test.key}, time.Now)
			require.NoError(t, err)
			s, err := webhook.New(webhook.Options{URL: "http://" + test.host + "/api/v2/logs", Proxy: proxy, Preset: preset})
			require.NoError(t, err)
			defer s.Close()
			found := s.Check(t.Context(), sinks.Trial{Now: time.Now})
			findingtest.Expect(t, found, test.want)
			assert.NotContains(t, findingtest.Lines(found), test.key, "a secret is shown")
		})
	}
}
