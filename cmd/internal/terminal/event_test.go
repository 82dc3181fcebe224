package terminal_test

import (
	"cmp"
	"testing"

	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestAnEventIsSummedUpInALine(t *testing.T) {
	for _, c := range []struct{ name, source, data, want, action string }{
		{"a detection by its title", "ndrbridge://hq/detections", `{"detection":{"id":1,"title":"Rare SSH port"}}`, "Rare SSH port", ""},
		{"an update by what changed", "ndrbridge://hq/detections", `{"detection":{"title":"T"},"changes":{"status":{"from":"new","to":"closed"},"assignee":{}}}`, "T (assignee, status)", ""},
		{"a title that is not text is ignored", "ndrbridge://hq/detections", `{"detection":{"title":7},"changes":{"status":{}}}`, " (status)", ""},
		{"a follow-up by what it says", "ndrbridge://hq/detections", `{"detection":{"title":"T"},"note":{"text":"Isolate it.","author":"ada"}}`, "T: noted by ada: Isolate it.", "noted"},
		{"an audit entry by what was done", "ndrbridge://hq/audit", `{"audit":{"id":1,"body":{"operation":"Login","user":"ana","details":"by key"}}}`, "Login by ana: by key", ""},
		{"an audit entry whose body is a text", "ndrbridge://hq/audit", `{"audit":{"body":"restarted"}}`, "restarted", ""},
		{"a record by nothing", "ndrbridge://hq/records/dns", `{"record":{"_id":"x"}}`, "", ""},
		{"a gap by its explanation", "ndrbridge://hq/events", `{"gap":{"explanation":"entries were purged"}}`, "entries were purged", ""},
		{"an appliance by why it is out of reach", "ndrbridge://hq/events", `{"appliance":{"reason":"connection refused"}}`, "connection refused", ""},
		{"a skip names the sink", "ndrbridge://bridge/events", `{"skipped":{"sink":"lake","reason":"too old"}}`, "lake: too old", ""},
		{"a ticket change by its ticket", "ndrbridge://hq/events", `{"ticket":{"command":17,"ticket_id":"SEC-1","status":"closed"}}`, "SEC-1", ""},
		{"a rejected ticket change by the ticket and the reason", "ndrbridge://hq/events", `{"ticket":{"ticket_id":"SEC-1","reason":"answered 404"}}`, "SEC-1: answered 404", ""},
		{"a refused message by its position and the reason", "ndrbridge://bridge/events", `{"ticket":{"message":"stream T, message 42","reason":"no command"}}`, "stream T, message 42: no command", ""},
		{"a tuning rule by its description", "ndrbridge://hq/events", `{"rule":{"id":12,"description":"Nightly copy"},"changes":{}}`, "Nightly copy", ""},
		{"a blind spot by its name", "ndrbridge://hq/events", `{"blindspot":{"kind":"alert","name":"Patch day"}}`, "Patch day", ""},
		{"a heartbeat by nothing", "ndrbridge://bridge/events", `{"heartbeat":{"version":"1"}}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := transform.New(transform.Attributes{ID: "1", Source: c.source, Type: "io.ndrbridge.x." + cmp.Or(c.action, "updated")}, []byte(c.data))
			require.NoError(t, err)
			assert.Equal(t, terminal.Summary(e), c.want)
		})
	}
}
