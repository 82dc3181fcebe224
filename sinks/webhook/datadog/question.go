package datadog

import (
	"net/url"
	"strings"

	"ndrbridge/preflight"
	"ndrbridge/sinks/webhook"
)

var _ webhook.Asking = (*Preset)(nil)

// Questions ask whether the API key is valid, at the site's API, which has another
// name than the intake. Of an intake whose name is not Datadog's, a relay, it is not
// known where the API is: there is nothing to ask.
func (p *Preset) Questions() []webhook.Question {
	to, err := url.Parse(p.o.URL)
	if err != nil {
		return nil
	}
	site, ok := strings.CutPrefix(to.Host, "http-intake.logs.")
	if !ok {
		return nil
	}
	to.Host = "api." + site
	to.Path, to.RawPath, to.RawQuery, to.User = "/api/v1/validate", "", "", nil
	return []webhook.Question{{Step: "key", URL: to, Judge: func(a webhook.Answer) preflight.Finding {
		return a.Finding("the site knows the API key", "check key, and that url is of the site that the key is of: an application key is no API key")
	}}}
}
