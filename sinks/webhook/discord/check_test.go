package discord

import (
	"net/http"
	"testing"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
)

func TestChecks(t *testing.T) {
	at := func(path string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) { return toDiscord(url + path) }
	}
	discordAPI := presettest.API("", "", nil, map[string]string{"GET /api/webhooks/1/token-token": `200 {"id":"1","type":1,"channel_id":"2"}`})
	presettest.Checks(t, []presettest.CheckTest{
		{Name: "a webhook that is there", Server: discordAPI, Open: at("/api/webhooks/1/token-token"), Want: presettest.Row("webhook", finding.OK, "knows the webhook", "")},
		{Name: "a webhook that was removed", Server: discordAPI, Open: at("/api/webhooks/1/another-token"), Want: presettest.Row("webhook", finding.Failed, "404", "copy url")},
		{Name: "a service that hangs up on its callers", Server: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), Open: at("/api/webhooks/1/token-token"), Want: presettest.Row("webhook", finding.Failed, "EOF", "check url")},
	})
}
