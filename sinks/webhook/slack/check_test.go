package slack

import (
	"net/http"
	"strings"
	"testing"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
)

func knownChannels(info string) http.Handler {
	h := http.NewServeMux()
	h.HandleFunc("GET /api/auth.test", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+presettest.CheckKey {
			presettest.JSON(w, http.StatusOK, `{"ok":false,"error":"invalid_auth"}`)
			return
		}
		presettest.JSON(w, http.StatusOK, `{"ok":true,"user":"ndrbridge","team":"SOC"}`)
	})
	h.HandleFunc("GET /api/conversations.info", func(w http.ResponseWriter, r *http.Request) {
		if id := r.URL.Query().Get("channel"); id != "C012AB3CD" && id != "D012AB3CD" {
			info = `{"ok":false,"error":"channel_not_found"}`
		}
		presettest.JSON(w, http.StatusOK, info)
	})
	return h
}

const member = `{"ok":true,"channel":{"name":"alerts","is_member":true,"is_archived":false}}`

func TestChecks(t *testing.T) {
	toSlack := func(token, channel string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			return Spec().Open(webhook.PresetSettings{URL: url + "/api", Key: token, Channel: channel})
		}
	}
	presettest.Checks(t, []presettest.CheckTest{
		{Name: "a bot in its channel", Server: knownChannels(member), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("channel", finding.OK, "alerts", "")},
		{Name: "who the bot is", Server: knownChannels(member), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("token", finding.OK, "ndrbridge in SOC", "")},
		{Name: "a wrong token", Server: knownChannels(member), Open: toSlack("wrong-token", "C012AB3CD"), Want: presettest.Row("token", finding.Failed, "invalid_auth", "xoxb-")},
		{Name: "a bot that was not invited", Server: knownChannels(strings.Replace(member, `"is_member":true`, `"is_member":false`, 1)), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("channel", finding.Warning, "alerts", "invite")},
		{Name: "a direct message", Server: knownChannels(`{"ok":true,"channel":{"id":"D012AB3CD","is_im":true,"user":"U012AB3CD","is_archived":false}}`), Open: toSlack(presettest.CheckKey, "D012AB3CD"), Want: presettest.Row("channel", finding.OK, "direct message", "")},
		{Name: "a channel that is archived", Server: knownChannels(strings.Replace(member, `"is_archived":false`, `"is_archived":true`, 1)), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("channel", finding.Failed, "archived", "check channel")},
		{Name: "a channel that nobody knows", Server: knownChannels(member), Open: toSlack(presettest.CheckKey, "C0000"), Want: presettest.Row("channel", finding.Failed, "channel_not_found", "invite")},
		{Name: "a channel by its name", Server: knownChannels(member), Open: toSlack(presettest.CheckKey, "#alerts"), Want: presettest.Row("channel", finding.Untried, "not an id", "channel's id")},
		{Name: "a bot without the scope", Server: knownChannels(`{"ok":false,"error":"missing_scope"}`), Open: toSlack(presettest.CheckKey, "C012AB3CD"), Want: presettest.Row("channel", finding.Untried, "missing_scope", "channels:read")},
		presettest.NoCheck("an incoming webhook", toWebhook),
	})
}
