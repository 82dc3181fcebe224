package discord

import (
	"ndrbridge/preflight/finding"
	"ndrbridge/sinks/webhook"
)

var _ webhook.Checker = (*Preset)(nil)

// CheckRequests gets the webhook itself.
func (p *Preset) CheckRequests() []webhook.CheckRequest {
	target := *p.url
	target.RawQuery = ""
	return []webhook.CheckRequest{{Step: "webhook", URL: &target, Judge: func(a webhook.Answer) finding.Finding {
		return a.Finding("Discord knows the webhook", "copy url again from the channel's settings, Integrations, Webhooks")
	}}}
}
