package discord

import (
	"ndrbridge/preflight"
	"ndrbridge/sinks/webhook"
)

var _ webhook.Asking = (*Preset)(nil)

// Questions ask for the webhook itself.
func (p *Preset) Questions() []webhook.Question {
	to := *p.url
	to.RawQuery = ""
	return []webhook.Question{{Step: "webhook", URL: &to, Judge: func(a webhook.Answer) preflight.Finding {
		return a.Finding("Discord knows the webhook", "copy url once more from the channel's settings, Integrations, Webhooks")
	}}}
}
