package splunk

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// classes maps the codes of the collector's answers, which are more specific than its
// statuses. Codes not listed are classified by the status.
//
// The invalid-event-number of a batch is not used: Splunk does not document where its
// count begins.
var classes = map[int]failure.Class{
	1:  failure.Halted,    // token disabled
	2:  failure.Halted,    // token is required
	3:  failure.Halted,    // invalid authorization
	4:  failure.Halted,    // invalid token
	5:  failure.Rejected,  // no data
	6:  failure.Rejected,  // invalid data format
	7:  failure.Halted,    // incorrect index
	8:  failure.Transient, // internal server error
	9:  failure.Transient, // server is busy
	10: failure.Halted,    // data channel is missing
	11: failure.Halted,    // invalid data channel
	12: failure.Rejected,  // event field is required
	13: failure.Rejected,  // event field cannot be blank
	14: failure.Halted,    // acknowledgement is disabled
	15: failure.Rejected,  // error in handling indexed fields
	16: failure.Halted,    // query string authorization is not enabled
	18: failure.Transient, // queues are full
	19: failure.Transient, // acknowledgement service unavailable
	20: failure.Transient, // both
	21: failure.Halted,    // invalid token
	22: failure.Halted,    // token disabled
	23: failure.Transient, // server is shutting down
	26: failure.Throttled, // queue at capacity
	27: failure.Throttled, // acknowledgement channel at capacity
}

// busy holds the codes of a collector that is not available: no event is at fault.
var busy = []int{9, 18, 19, 20, 23}

// The wait before each query of the acknowledgement, which doubles from the first to the
// last value.
const (
	minAckWait = 100 * time.Millisecond
	maxAckWait = 2 * time.Second
)

// reply is the collector's answer to events and to queries.
type reply struct {
	Code *int            `json:"code"`
	Ack  *int64          `json:"ackId"`
	Acks map[string]bool `json:"acks"`
}

// converse sends the leading events, and waits until the indexer has stored them if the token has
// acknowledgement.
func (p *preset) converse(ctx context.Context, c *webhook.Conversation, events []transform.Event) (int, error) {
	r, err := p.compose(events)
	if err != nil {
		return 1, err
	}
	a, err := c.Do(ctx, r)
	if err != nil {
		return r.Events, err
	}
	ack, err := judge(a)
	if err != nil || ack == nil {
		return r.Events, err
	}
	query := webhook.Request{
		Events: r.Events,
		Body:   fmt.Appendf(nil, `{"acks":[%d]}`, *ack),
		URL:    p.ack,
		// Only the collector that received the events knows their state: its cookies
		// route the query to it through a load balancer.
		Cookies: (&http.Response{Header: a.Header}).Cookies(),
	}
	for query.After = minAckWait; ; query.After = min(2*query.After, maxAckWait) {
		if a, err = c.Do(ctx, query); err != nil {
			return r.Events, err
		}
		if indexed, err := judgeAck(a); err != nil || indexed {
			return r.Events, err
		}
	}
}

// judge classifies the collector's answer to events. ack is the id to query, nil without
// acknowledgement.
func judge(a webhook.Answer) (ack *int64, err error) {
	var answer reply
	err = json.Unmarshal(a.Body, &answer)
	switch {
	case a.Status/100 != 2:
		return nil, refusal(a, answer)
	case err != nil || answer.Code == nil:
		return nil, failure.Errorf(failure.Halted, "%d, but not as an HTTP Event Collector answers; check url, whose path is /services/collector/event by default: %s",
			a.Status, a.QuoteBody())
	case *answer.Code != 0 && *answer.Code != 24 && *answer.Code != 25: // 24 and 25 warn that its queues are filling up
		return nil, refusal(a, answer)
	}
	return answer.Ack, nil
}

// judgeAck reports whether the indexer has stored the events, by the answer to a query.
func judgeAck(a webhook.Answer) (indexed bool, err error) {
	var answer reply
	err = json.Unmarshal(a.Body, &answer)
	switch {
	case a.Status/100 != 2:
		return false, refusal(a, answer)
	case err != nil || len(answer.Acks) != 1:
		return false, a.Error(failure.Transient)
	}
	for _, indexed = range answer.Acks {
	}
	return indexed, nil
}

func refusal(a webhook.Answer, answer reply) error {
	class, wait := failure.ClassOf(a.Refusal())
	if answer.Code != nil {
		if known, ok := classes[*answer.Code]; ok && class != failure.Throttled {
			class = known
		}
	}
	err := a.Error(class)
	err.RetryAfter = wait
	if answer.Code != nil && slices.Contains(busy, *answer.Code) {
		err.Scope = failure.ScopeTarget
	}
	return err
}

// checks checks the collector's health, and checks the token by querying an
// acknowledgement that does not exist.
func (p *preset) checks() []webhook.CheckRequest {
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
			Advice: webhook.TryBySend,
		}
	case a.Status/100 == 2 && len(answer.Acks) == 0:
		return finding.Finding{
			Result: finding.Failed, Detail: fmt.Sprintf("%d, but not as an HTTP Event Collector answers: %s", a.Status, a.QuoteBody()),
			Advice: "check url, whose path is /services/collector/event by default",
		}
	}
	return a.Finding("the collector accepts the token, with indexer acknowledgement", "check that key is the value of an enabled token")
}
