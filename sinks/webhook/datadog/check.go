package datadog

import (
	"net/url"
	"strings"

	"ndrbridge/preflight/finding"
	"ndrbridge/sinks/webhook"
)

var _ webhook.Checker = (*Preset)(nil)

// CheckRequests asks the site's API whether the API key is valid; its host is not that
// of the intake. For a relay, the API's host is unknown, and there is no check.
func (p *Preset) CheckRequests() []webhook.CheckRequest {
	target, err := url.Parse(p.o.URL)
	if err != nil {
		return nil
	}
	site, ok := strings.CutPrefix(target.Host, "http-intake.logs.")
	if !ok {
		return nil
	}
	target.Host = "api." + site
	target.Path, target.RawPath, target.RawQuery, target.User = "/api/v1/validate", "", "", nil
	return []webhook.CheckRequest{{Step: "key", URL: target, Judge: func(a webhook.Answer) finding.Finding {
		return a.Finding("the site knows the API key", "check key, which must be an API key, not an application key, and that url belongs to the key's site")
	}}}
}
