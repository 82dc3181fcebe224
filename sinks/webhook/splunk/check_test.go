package splunk

import (
	"net/http"
	"testing"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
)

func hec(ack string) http.Handler {
	return presettest.API("Authorization", "Splunk "+presettest.CheckKey, func(w http.ResponseWriter, _ *http.Request) {
		presettest.JSON(w, http.StatusForbidden, `{"text":"Invalid token","code":4}`)
	}, map[string]string{
		"GET /services/collector/health": `200 {"text":"HEC is healthy","code":17}`,
		"POST /services/collector/ack":   ack,
	})
}

func TestChecks(t *testing.T) {
	toSplunk := func(token string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			return Spec().Open(webhook.PresetSettings{URL: url, Key: token})
		}
	}
	acks, noAcks := `200 {"acks":{"0":false}}`, `400 {"text":"ACK is disabled","code":14}`
	presettest.Checks(t, []presettest.CheckTest{
		{Name: "a token with acknowledgement", Server: hec(acks), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("token", finding.OK, "with indexer acknowledgement", "")},
		{Name: "a token without it", Server: hec(noAcks), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("token", finding.Remark, "without indexer acknowledgement", "")},
		{Name: "a wrong token", Server: hec(acks), Open: toSplunk("wrong-token"), Want: presettest.Row("collector", finding.Failed, "Invalid token", "port 8088")},
		{Name: "no collector", Server: http.NotFoundHandler(), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("collector", finding.Failed, "404", "HTTP Event Collector")},
		{Name: "a collector whose queues are full", Server: presettest.API("", "", nil, map[string]string{"GET /services/collector/health": `503 {"text":"HEC is unhealthy","code":18}`}), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("collector", finding.Warning, "503", "later")},
	}, "/ack")
}
