package datadog

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
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

func opened(t testing.TB) *webhook.Preset {
	t.Helper()
	now := func() time.Time { return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC) } // of presettest's events
	p, err := openAt(webhook.PresetSettings{Key: "dd-secret-key", Tags: []string{"env:prod"}}, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
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
	for _, kind := range presettest.Events(t) {
		t.Run(kind.Name, func(t *testing.T) {
			s := presettest.Serve(t, new(intake).answer)
			if err := presettest.Send(t, s.URL, opened(t), kind.Event); err != nil {
				t.Fatal(err)
			}
			presettest.Golden(t, kind.Name, s.Requests()[0].Body)
		})
	}
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
			if err != nil {
				t.Fatal(err)
			}
			request, err := p.Compose([]transform.Event{e.WithDocument(test.contentType, []byte(test.document))})
			if err != nil {
				t.Fatal(err)
			}
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
	p, err := openAt(webhook.PresetSettings{Key: "dd-secret-key"}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			request, err := p.Compose([]transform.Event{e})
			if err != nil {
				t.Fatal(err)
			}
			var logs []struct {
				Timestamp string
				Event     struct{ Time time.Time }
			}
			if err := json.Unmarshal(request.Body, &logs); err != nil {
				t.Fatal(err)
			}
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
			if err := presettest.Send(t, s.URL, opened(t), sinktest.Events(test.logs, 5, test.size)...); err != nil {
				t.Fatal(err)
			}
			if len(in.ids) != test.logs || len(s.Requests()) != test.inRequests {
				t.Errorf("%d of %d logs in %d requests", len(in.ids), test.logs, len(s.Requests()))
			}
		})
	}
}

func TestALogThatDatadogWouldTruncateIsRejectedAndTheOthersArrive(t *testing.T) {
	for at := range 3 {
		in := &intake{}
		s := presettest.Serve(t, in.answer)
		events := sinktest.Events(3, 3, 0)
		events[at] = sinktest.Events(1, 1, 1_000_001)[0]
		each, ok := presettest.Send(t, s.URL, opened(t), events...).(failure.EventErrors)
		if !ok || len(in.ids) != 2 {
			t.Fatalf("%d logs arrived", len(in.ids))
		}
		for i, err := range each {
			if class, _ := presettest.Result(err); (class == failure.Rejected) != (i == at) {
				t.Errorf("event %d of those with a large one at %d: %v", i, at, err)
			}
		}
	}
}

func TestDatadogsAnswers(t *testing.T) {
	text := func(status int) presettest.Reply { return presettest.Reply{Status: status} }
	presettest.Answers(t, presettest.Events(t)[0].Event, func(string) (*webhook.Preset, error) { return opened(t), nil }, []presettest.Case{
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
