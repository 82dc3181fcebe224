// Package teams posts Adaptive Cards to a chat or channel of Microsoft Teams, by a
// workflow that begins when a webhook request is received.
package teams

import (
	"regexp"

	"github.com/go-json-experiment/json"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// maxMessage is how large a message to Teams may be, in bytes, with some left for
// what the workflow puts around it: the limit is 28 KB.
const maxMessage = 26 << 10

// Preset posts a message for every Send, or a few. Up to card.Few events have a
// card each in it, as far as they fit; more are one summary. A workflow answers
// before it posts: whether Teams showed the message cannot be known.
type Preset struct{}

var _ webhook.Preset = Preset{}

// Service keeps to a message a second: Teams takes four from a connector, and a
// workflow's run takes longer.
func (Preset) Service() webhook.Service {
	return webhook.Service{
		Header:            map[string]string{"Content-Type": "application/json; charset=utf-8"},
		RequestsPerSecond: 1,
		Undivided:         true, // one summary of a burst, not several
	}
}

// Compose makes one message of as many events as fit.
func (Preset) Compose(events []transform.Event) (webhook.Request, error) {
	n := len(events)
	for cards := card.OfAll(events); ; cards = cards[:n] {
		body, err := json.Marshal(newMessage(cards))
		if err != nil {
			return webhook.Request{}, sinks.Unsendable("encode the message: %w", err)
		}
		// One card alone always fits.
		if len(body) <= maxMessage || len(cards) == 1 {
			return webhook.Request{Events: n, Body: body}, nil
		}
		n = len(cards) - 1
	}
}

var (
	// delivery is what a connector answers with 200 when Teams did not take the
	// message.
	delivery = regexp.MustCompile(`(?i)delivery failed|endpoint returned HTTP error`)
	status   = regexp.MustCompile(`HTTP error (\d{3})`)
	// misconfigured are the errors of workflows that no message is at fault for,
	// whatever their status.
	misconfigured = regexp.MustCompile(`"code"\s*:\s*"(WorkflowTriggerIsNotEnabled|WorkflowNotFound|WorkflowTriggerNotFound|WorkflowDisabled|DirectApiAuthorizationRequired|DirectApiRequestHasMoreThanOneAuthorization|AuthorizationFailed|MissingApiVersionParameter)"`)
)

// Judge reads the workflow's answer.
func (Preset) Judge(_ webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	if a.Status/100 == 2 {
		if !delivery.Match(a.Body) {
			return nil, nil
		}
		class := sinks.Transient
		if m := status.FindSubmatch(a.Body); m != nil {
			switch string(m[1]) {
			case "429":
				class = sinks.Throttled
			case "400", "413":
				class = sinks.Rejected
			case "401", "403", "404", "410":
				class = sinks.Halted
			}
		}
		return nil, a.Error(class)
	}
	if misconfigured.Match(a.Body) {
		return nil, a.Error(sinks.Halted)
	}
	return nil, a.Refusal()
}
