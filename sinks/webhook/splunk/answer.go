package splunk

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
)

// classes are what the codes of the collector's answers mean, which say more than
// the status beside them. A code that is not here is read by the status.
//
// Which event of a batch an invalid-event-number means is not relied on: Splunk does
// not say where it begins to count.
var classes = map[int]sinks.Class{
	1:  sinks.Halted,    // token disabled
	2:  sinks.Halted,    // token is required
	3:  sinks.Halted,    // invalid authorization
	4:  sinks.Halted,    // invalid token
	5:  sinks.Rejected,  // no data
	6:  sinks.Rejected,  // invalid data format
	7:  sinks.Halted,    // incorrect index
	8:  sinks.Transient, // internal server error
	9:  sinks.Transient, // server is busy
	10: sinks.Halted,    // data channel is missing
	11: sinks.Halted,    // invalid data channel
	12: sinks.Rejected,  // event field is required
	13: sinks.Rejected,  // event field cannot be blank
	14: sinks.Halted,    // acknowledgement is disabled
	15: sinks.Rejected,  // error in handling indexed fields
	16: sinks.Halted,    // query string authorization is not enabled
	18: sinks.Transient, // queues are full
	19: sinks.Transient, // acknowledgement service unavailable
	20: sinks.Transient, // both
	21: sinks.Halted,    // invalid token
	22: sinks.Halted,    // token disabled
	23: sinks.Transient, // server is shutting down
	26: sinks.Throttled, // queue at capacity
	27: sinks.Throttled, // acknowledgement channel at capacity
}

// The wait before the indexer is asked whether it has the events, which grows from
// one to the other.
const (
	firstAsked = 100 * time.Millisecond
	lastAsked  = 2 * time.Second
)

// reply is what the collector answers, to events and to questions.
type reply struct {
	Code *int            `json:"code"`
	Ack  *int64          `json:"ackId"`
	Acks map[string]bool `json:"acks"`
}

// Judge reads the collector's answer: to events, or to the question whether the
// indexer has them.
func (p *Preset) Judge(r webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	var said reply
	err := json.Unmarshal(a.Body, &said)
	if a.Status/100 != 2 {
		return nil, refusal(a, said)
	}
	if r.URL == p.ack {
		if err != nil || len(said.Acks) != 1 {
			return nil, a.Error(sinks.Transient)
		}
		for _, indexed := range said.Acks {
			if indexed {
				return nil, nil
			}
		}
		r.After = min(2*r.After, lastAsked)
		return &r, nil
	}
	switch {
	case err != nil || said.Code == nil:
		return nil, a.Error(sinks.Transient) // not the collector's
	case *said.Code != 0 && *said.Code != 24 && *said.Code != 25: // the latter warn that its queues fill up
		return nil, refusal(a, said)
	case said.Ack == nil:
		return nil, nil
	}
	return &webhook.Request{
		Events: r.Events,
		Body:   fmt.Appendf(nil, `{"acks":[%d]}`, *said.Ack),
		URL:    p.ack,
		// Only the collector that took the events knows of them: behind a load
		// balancer its cookies lead back to it.
		Cookies: (&http.Response{Header: a.Header}).Cookies(),
		After:   firstAsked,
	}, nil
}

func refusal(a webhook.Answer, said reply) error {
	class, wait := sinks.ClassOf(a.Refusal())
	if said.Code != nil {
		if known, ok := classes[*said.Code]; ok && class != sinks.Throttled {
			class = known
		}
	}
	err := a.Error(class)
	err.RetryAfter = wait
	return err
}
