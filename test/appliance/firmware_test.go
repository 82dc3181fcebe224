package appliance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// clock is a clock that a test puts forward.
type clock struct{ since atomic.Int64 }

func (c *clock) now() time.Time          { return epoch.Add(time.Duration(c.since.Load())) }
func (c *clock) forward(d time.Duration) { c.since.Add(int64(d)) }
func location(got reply) (below string) {
	return strings.TrimPrefix(got.header.Get("Location"), "/api/v1")
}
func version(c *caller) string  { c.t.Helper(); return c.want(200, "GET", "/service/version", "").body }
func upgraded(to string) string { return fmt.Sprintf(`{"version":%q}`, to) }

// typed sends a body of another type than JSON and checks the status of the answer.
func (c *caller) typed(contentType string, status int, method, path, body string) reply {
	c.t.Helper()
	plain := *c
	plain.contentType = contentType
	return plain.want(status, method, path, body)
}

const octets = "application/octet-stream"

// job is a job as the interface shows it.
type job struct {
	Status      string
	Step        int    `json:"step_number"`
	Total       int    `json:"total_steps"`
	Description string `json:"step_description"`
	Created     int64  `json:"create_time"`
	Ended       *int64 `json:"end_time"`
}

func (c *caller) job(path string) job {
	c.t.Helper()
	var j job
	require.NoError(c.t, json.Unmarshal([]byte(c.want(200, "GET", path, "").body), &j))
	return j
}

func TestAnUpgradeGoesThroughItsSteps(t *testing.T) {
	var at clock
	_, c := serve(t, standin.Options{Now: at.now, StepTime: time.Second, RestartTime: 10 * time.Second, Firmware: "26.3.0.1234"})
	got := c.want(202, "POST", "/service/firmware/download/version", `{"version":"26.3.1.1235","upgrade":true}`)
	path := location(got)
	require.Equal(t, path, "/jobs/download-2", "the location is")
	require.Equal(t, got.body, "", "the body")
	steps := []string{
		"", "Find the firmware image", "Download the firmware image", "Verify the firmware image",
		"Check the compatibility", "Install the firmware",
	}
	for i, step := range steps {
		status := "RUNNING"
		if i == 0 {
			status = "PENDING"
		}
		j := c.job(path)
		assert.True(t, j.Status == status && j.Step == i && j.Total == 6 && j.Description == step && j.Ended == nil, "the job", j, "want step", i, step)
		if i == 1 {
			c.want(422, "POST", "/service/firmware/previous/rollback", "")
		}
		assert.Equal(t, version(c), upgraded("26.3.0.1234"), "the version in step", i)
		at.forward(time.Second)
	}
	for _, passed := range []time.Duration{0, 4999 * time.Millisecond} {
		at.forward(passed)
		got, err := c.send("GET", "/api/v1"+path, "")
		assert.Error(t, err, "while it is down, the answer", got)
	}
	at.forward(2 * time.Millisecond)
	got = c.want(503, "GET", path, "")
	assert.Equal(t, got.header.Get("Retry-After"), "5", "the answer while it starts", got)
	at.forward(5 * time.Second)
	j := c.job(path)
	assert.True(t, j.Status == "DONE" && j.Step == 6 && j.Ended != nil && *j.Ended == j.Created+16_000, "the job", j)
	assert.Equal(t, version(c), upgraded("26.3.1.1235"), "the version is")
	assert.Contains(t, c.want(200, "GET", "/service", "").body, `"version":"26.3.1.1235"`, "the metadata are")
	assert.Equal(t, c.want(200, "GET", "/service/firmware/previous", "").body, `{"version":"26.3.0.1234"}`, "the previous version is")
}

func TestFirmware(t *testing.T) {
	a, c := serve(t, standin.Options{Firmware: "26.3.0.1234", User: "ada"})
	j := c.job("/jobs/install-1")
	assert.Equal(t, j.Status, "DONE", "the job of the installation", j)
	const offered = `[{"release":"26.5","current_release":false,"versions":["26.5.1.1238","26.5.0.1237"]},` +
		`{"release":"26.4","current_release":false,"versions":["26.4.1.1237","26.4.0.1236"]},` +
		`{"release":"26.3","current_release":true,"versions":["26.3.2.1236","26.3.1.1235"]}]`
	assert.Equal(t, c.want(200, "GET", "/service/firmware/next", "").body, offered, "the next versions are")
	assert.Equal(t, c.want(200, "GET", "/service/firmware/previous", "").body, `{"version":"26.2.0.1"}`, "the previous version is")
	c.want(422, "POST", "/service/firmware/latest/upgrade", "")

	done := func(t *testing.T, got reply, want string) {
		t.Helper()
		j := c.job(location(got))
		assert.Equal(t, j.Status, "DONE", "the job", j)
		assert.Equal(t, version(c), upgraded(want), "the version is , want", want)
	}
	c.typed(octets, 204, "POST", "/service/firmware", "firmware 26.4.0.7\n"+strings.Repeat("\xff", 1000))
	done(t, c.want(202, "POST", "/service/firmware/latest/upgrade", ""), "26.4.0.7")
	done(t, c.want(202, "POST", "/service/firmware/latest/upgrade", ""), "26.4.0.7")
	done(t, c.want(202, "POST", "/service/firmware/previous/rollback", ""), "26.3.0.1234")
	done(t, c.want(202, "POST", "/service/firmware/previous/rollback", ""), "26.4.0.7")
	const file = `{"firmware_url":"https://user:secret@downloads.example/images/firmware-26.4.1.3.tar"`
	done(t, c.want(202, "POST", "/service/firmware/download/url", file+`}`), "26.4.0.7")
	done(t, c.want(202, "POST", "/service/firmware/latest/upgrade", ""), "26.4.1.3")
	done(t, c.want(202, "POST", "/service/firmware/previous/rollback", ""), "26.4.0.7")
	done(t, c.want(202, "POST", "/service/firmware/download/url", file+`,"upgrade":true}`), "26.4.1.3")
	done(t, c.want(202, "POST", "/service/firmware/download/version", `{"version":"26.5.0.5"}`), "26.4.1.3")

	c.want(404, "GET", "/jobs/install-2", "")

	var changes []string
	for _, entry := range a.AuditHistory() {
		if text := string(entry.JSON); strings.Contains(text, `"Upgrade"`) || strings.Contains(text, "secret") {
			changes = append(changes, text)
		}
	}
	if text := changes[1]; strings.Contains(strings.Join(changes, ""), "secret") || !strings.Contains(text, `"ada"`) || !strings.Contains(text, "Started the upgrade to firmware 26.4.0.7") {
		t.Errorf("the audit log has %s", strings.Join(changes, "\n"))
	}
	assert.Contains(t, changes[0], "Replaced firmware 26.3.0.1234 by 26.4.0.7", "the audit log", changes)
}

func TestAnUpgradeFromOldFirmware(t *testing.T) {
	a, c := serve(t, standin.Options{Firmware: "9.2.8.1"})
	a.AddMany(3)
	c.want(400, "POST", "/detections/search", `{"mod_time":1}`)
	c.want(202, "POST", "/service/firmware/download/version", `{"version":"9.3.0.3","upgrade":true}`)
	got := c.search(`{"mod_time":1}`)
	assert.Equal(t, len(got), 3, "found", got, "after the upgrade")
	body := c.want(200, "POST", "/detections/search", `{}`).body
	assert.Equal(t, strings.Count(body, `"mod_time"`), 3, "after the upgrade, the detections are", body)
	c.want(202, "POST", "/service/firmware/previous/rollback", "")
	c.want(400, "POST", "/detections/search", `{"mod_time":1}`)
	assert.NotContains(t, c.want(200, "POST", "/detections/search", `{}`).body, `"mod_time"`, "after the rollback, the detections are")
}

func TestPower(t *testing.T) {
	const restart = 10 * time.Second
	// The states after some time: up, down or starting.
	state := func(c *caller) string {
		got, err := c.send("GET", "/api/v1/service", "")
		switch {
		case err != nil:
			return "down"
		case got.status == http.StatusServiceUnavailable:
			return "starting"
		}
		return "up"
	}
	for name, test := range map[string]struct {
		options standin.Options
		path    string
		passes  []time.Duration
		want    string
		powerOn bool // before the last look
	}{
		"a restart takes a while": {
			standin.Options{RestartTime: restart}, "/service/restart",
			[]time.Duration{0, restart / 2, restart / 2}, "down starting up", false,
		},
		"an instant restart is not noticed": {
			standin.Options{}, "/service/restart", []time.Duration{0}, "up", false,
		},
		"a shutdown is for ever": {
			standin.Options{RestartTime: restart}, "/service/shutdown",
			[]time.Duration{0, time.Hour, 100 * 365 * 24 * time.Hour}, "down down down", false,
		},
		"a shutdown ends by itself": {
			standin.Options{RestartTime: restart, PowerOnAfter: time.Minute}, "/service/shutdown",
			[]time.Duration{0, 59 * time.Second, time.Second, restart / 2}, "down down starting up", false,
		},
		"a shutdown ends at once if it is powered on": {
			standin.Options{PowerOnAfter: time.Minute}, "/service/shutdown",
			[]time.Duration{0, 0}, "down up", true,
		},
		"the process of the interface is waited for": {
			standin.Options{RestartTime: restart}, "/service/processes/api/restart",
			[]time.Duration{0, restart - 1, 1}, "starting starting up", false,
		},
		"another process is not": {
			standin.Options{RestartTime: restart}, "/service/processes/alerts/restart", []time.Duration{0}, "up", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var at clock
			test.options.Now = at.now
			a, c := serve(t, test.options)
			if got := c.want(202, "POST", test.path, ""); got.body != "" {
				t.Errorf("the answer is %q", got.body)
			}
			var got []string
			for i, passed := range test.passes {
				at.forward(passed)
				if test.powerOn && i == len(test.passes)-1 {
					a.PowerOn()
				}
				got = append(got, state(c))
			}
			assert.Equal(t, strings.Join(got, " "), test.want, "it", got)
			entries := a.AuditHistory()
			assert.True(t, len(entries) == 1 && strings.Contains(string(entries[0].JSON), `"component":"System"`), "the audit log", len(entries), "entries", entries)
		})
	}
	t.Run("no token is issued meanwhile", func(t *testing.T) {
		a, c := serve(t, standin.Options{
			RestartTime: restart, OAuth: &standin.OAuth{ClientID: "id", ClientSecret: "secret"}, APIKey: standin.DefaultAPIKey,
		})
		c.want(202, "POST", "/service/restart", "")
		if got, err := c.send("POST", "/oauth2/token", "grant_type=client_credentials"); err == nil || len(a.AuditHistory()) != 1 {
			t.Errorf("got %+v, and %d entries", got, len(a.AuditHistory()))
		}
	})
	t.Run("a restart fails the job that is not finished", func(t *testing.T) {
		_, c := serve(t, standin.Options{StepTime: time.Second})
		path := location(c.want(202, "POST", "/service/firmware/previous/rollback", ""))
		c.want(202, "POST", "/service/restart", "")
		j := c.job(path)
		assert.True(t, j.Status == "FAILED" && j.Description == "the system was restarted", "the job", j)
	})
}
