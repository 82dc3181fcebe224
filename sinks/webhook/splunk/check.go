package splunk

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"ndrbridge/preflight/finding"
	"ndrbridge/sinks/webhook"
)

var _ webhook.Checker = (*Preset)(nil)

// CheckRequests checks the collector's health, and checks the token by querying an
// acknowledgement that does not exist.
func (p *Preset) CheckRequests() []webhook.CheckRequest {
	health := p.ack.JoinPath("../health")
	health.RawQuery = ""
	return []webhook.CheckRequest{
		{Step: "collector", URL: health, Judge: func(a webhook.Answer) finding.Finding {
			return a.Finding("the collector is healthy", "check that url is that of an HTTP Event Collector and that it is enabled; it listens on port 8088 by default")
		}},
		{Step: "token", Method: http.MethodPost, URL: p.ack, Body: []byte(`{"acks":[0]}`), Judge: judgeToken},
	}
}

func judgeToken(a webhook.Answer) finding.Finding {
	const withoutAck = 14
	var answer reply
	_ = json.Unmarshal(a.Body, &answer) // any other server's answer has no code
	switch {
	case answer.Code != nil && *answer.Code == withoutAck:
		return finding.Finding{Result: finding.Remark, Detail: "the collector accepts the token, without indexer acknowledgement: an event counts as delivered when the collector has received it"}
	case a.Status == http.StatusNotFound:
		return finding.Finding{
			Result: finding.Untried, Detail: "the collector does not support acknowledgement, so the token cannot be checked",
			Advice: webhook.TryByReplay,
		}
	}
	return a.Finding("the collector accepts the token, with indexer acknowledgement", "check that key is the value of an enabled token")
}
