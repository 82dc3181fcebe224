package bridge_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// appliance waits until the status of the first appliance holds something.
func (r *running) appliance(t *testing.T, what string, holds func(admin.ApplianceStatus) bool) {
	t.Helper()
	var got admin.ApplianceStatus
	defer func() {
		if t.Failed() {
			t.Logf("%+v", got)
		}
	}()
	await(t, what, func() bool {
		status := require.Value(r.control(t).Status(t.Context()))(t)
		got = status.Appliances[0]
		return holds(got)
	})
}

func TestTheStatusReportsReachability(t *testing.T) {
	a, url := startAppliance(t, 10)
	a.SetSkew(-90 * time.Second)
	a.SetHazards(standin.Hazards{ServerError: 1, ServerErrorStatus: http.StatusBadGateway})
	soc := startInbox(t)
	r := run(t, configuration(t, url, webhookSink("soc", soc.URL)+webhookSink("other", startInbox(t).URL)))
	metrics := func() string {
		_, body := get(t, "http://"+r.AdminAddress()+"/metrics")
		return body
	}
	r.appliance(t, "that it is not reached", func(s admin.ApplianceStatus) bool {
		return s.Reachable != nil && !*s.Reachable && !s.Since.IsZero() && strings.Contains(s.Error, "502") && s.Firmware == "" && s.ClockSkewSeconds == nil
	})
	m := metrics()
	assert.True(t, strings.Contains(m, `ndrbridge_appliance_up{appliance="hq"} 0`) && !strings.Contains(m, "ndrbridge_appliance_clock_skew_seconds{"), m)
	a.SetHazards(standin.Hazards{})
	r.appliance(t, "that it is reached, its firmware and its clock", func(s admin.ApplianceStatus) bool {
		return s.Reachable != nil && *s.Reachable && s.Error == "" && s.Firmware == "26.3.0.1234" &&
			s.ClockSkewSeconds != nil && *s.ClockSkewSeconds > -92 && *s.ClockSkewSeconds < -88
	})
	if m := metrics(); !strings.Contains(m, `ndrbridge_appliance_up{appliance="hq"} 1`) ||
		!strings.Contains(m, `ndrbridge_appliance_clock_skew_seconds{appliance="hq"} -`) || !strings.Contains(m, `ndrbridge_dead_letter_max_bytes{sink="soc"} 8.9478485e+07`) {
		t.Errorf("metrics of an appliance that is reached:\n%s", m)
	}
	r.appliance(t, "the position of a stream", func(s admin.ApplianceStatus) bool {
		d := s.Streams[0]
		return d.Events == 10 && d.LagSeconds != nil && *d.LagSeconds == 0 && time.Since(d.Position) > 80*time.Second && time.Since(d.Position) < 100*time.Second
	})
}

func TestABacklogOfDetectionsIsReportedWhileItIsRead(t *testing.T) {
	a, url := startAppliance(t, 400)
	a.SetHazards(standin.Hazards{Latency: 200 * time.Millisecond})
	soc := startInbox(t)
	r := run(t, strings.Replace(configuration(t, url, webhookSink("soc", soc.URL)), "page_size: 200", "page_size: 20", 1))
	r.appliance(t, "a backlog", func(s admin.ApplianceStatus) bool {
		b := s.Streams[0].Backlog
		return b != nil && b.BehindSeconds > 0 && b.EventsPerSecond > 0 && b.LeftSeconds > 0 && b.At.Equal(s.Streams[0].Position)
	})
	a.SetHazards(standin.Hazards{})
	r.appliance(t, "its end", func(s admin.ApplianceStatus) bool { return s.Streams[0].Events == 400 && s.Streams[0].Backlog == nil })
}
