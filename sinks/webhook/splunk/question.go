package splunk

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"ndrbridge/preflight"
	"ndrbridge/sinks/webhook"
)

var _ webhook.Asking = (*Preset)(nil)

// Questions ask whether the collector is healthy, and by the state of an
// acknowledgement that there is none of, whether it takes the token.
func (p *Preset) Questions() []webhook.Question {
	health := p.ack.JoinPath("../health")
	health.RawQuery = ""
	return []webhook.Question{
		{Step: "collector", URL: health, Judge: func(a webhook.Answer) preflight.Finding {
			return a.Finding("the collector is healthy", "is url that of an HTTP Event Collector, and is that switched on? It listens on port 8088 by default")
		}},
		{Step: "token", Method: http.MethodPost, URL: p.ack, Body: []byte(`{"acks":[0]}`), Judge: judgeToken},
	}
}

func judgeToken(a webhook.Answer) preflight.Finding {
	const withoutAck = 14
	var said reply
	_ = json.Unmarshal(a.Body, &said) // what is not the collector's has no code
	switch {
	case said.Code != nil && *said.Code == withoutAck:
		return preflight.Finding{Result: preflight.Remark, Detail: "the collector takes the token, without indexer acknowledgement: an event counts as delivered when the collector has it"}
	case a.Status == http.StatusNotFound:
		return preflight.Finding{
			Result: preflight.Untried, Detail: "the collector knows no acknowledgements, and so does not tell whether it takes the token",
			Advice: webhook.TryByReplay,
		}
	}
	return a.Finding("the collector takes the token, with indexer acknowledgement", "check key: is it the value of a token that is enabled?")
}
