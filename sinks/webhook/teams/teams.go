// Package teams posts Adaptive Cards to a chat or channel of Microsoft Teams, by a
// workflow that is triggered by a webhook request.
package teams

import (
	"regexp"

	"github.com/go-json-experiment/json"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// maxMessage is the maximum size of a message in bytes. Teams's limit is 28 KB; the
// difference is for what the workflow adds.
const maxMessage = 26 << 10

// Preset posts one message for each Send, or several if the cards do not fit into one.
// Up to card.Few events have a card each; more are combined into one summary. A
// workflow answers before it posts, so whether Teams has shown the message is not
// known.
type Preset struct{}

var _ webhook.Preset = Preset{}

// Service limits the rate to one message per second: Teams accepts four from a
// connector, but a workflow's run takes longer.
func (Preset) Service() webhook.Service {
	return webhook.Service{
		Header:            map[string]string{"Content-Type": "application/json; charset=utf-8"},
		RequestsPerSecond: 1,
		Undivided:         true, // one summary of a burst, not several
	}
}

// Compose returns one message with as many events as fit.
func (Preset) Compose(events []transform.Event) (webhook.Request, error) {
	n := len(events)
	for cards := card.OfAll(events); ; cards = cards[:n] {
		body, err := json.Marshal(newMessage(cards))
		if err != nil {
			return webhook.Request{}, sinks.Unsendable("encode the message: %w", err)
		}
		// A single card always fits.
		if len(body) <= maxMessage || len(cards) == 1 {
			return webhook.Request{Events: n, Body: body}, nil
		}
		n = len(cards) - 1
	}
}

var (
	// delivery matches a connector's answer, with status 200, if Teams did not accept
	// the message.
	delivery = regexp.MustCompile(`(?i)delivery failed|endpoint returned HTTP error`)
	status   = regexp.MustCompile(`HTTP error (\d{3})`)
	// misconfigured matches workflow errors that do not depend on the message,
	// whatever their status.
	misconfigured = regexp.MustCompile(`"code"\s*:\s*"(WorkflowTriggerIsNotEnabled|WorkflowNotFound|WorkflowTriggerNotFound|WorkflowDisabled|DirectApiAuthorizationRequired|DirectApiRequestHasMoreThanOneAuthorization|AuthorizationFailed|MissingApiVersionParameter)"`)
)

// Judge classifies the workflow's answer.
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
