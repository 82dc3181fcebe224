package endpoint

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/oauth2"

	"ndrbridge/configs"
	"ndrbridge/internal/oauthtoken"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

func openWebhook(s configs.Sink, o SinkOptions) (checkedSink, error) {
	w := *s.Webhook
	s.Webhook = &w
	var err error
	if w.URL, err = w.ReadURL(); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	memory := &webhook.Memory{Store: o.Memories, Sink: s.Name, Keep: memoryKept}
	tlsConfig, err := newTLS(w.TLS)
	if err != nil {
		return nil, err
	}
	proxy, err := ProxyURL(w.Proxy)
	if err != nil {
		return nil, err
	}
	preset, err := openPreset(s, o)
	if err != nil {
		return nil, err
	}
	signSecrets, err := w.Sign.Read()
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	var secrets secretReader
	headers := make(map[string]string, len(w.Headers))
	for name, value := range w.Headers {
		headers[name] = secrets.read("headers."+name, value)
	}
	var template *render.Template
	if preset == nil {
		if template, err = webhookTemplate(w); err != nil {
			return nil, fmt.Errorf("template: %w", err)
		}
	}
	options := webhook.Options{
		URL: w.URL.Value(), Method: w.Method, Headers: headers,
		Bearer: secrets.read("auth.bearer", w.Auth.Bearer), Username: w.Auth.Username, Password: secrets.read("auth.password", w.Auth.Password),
		Mode: transform.Mode(s.Mode), Format: format.Name(s.Format), Lines: w.BatchEncoding == "ndjson",
		Preset: preset, Memory: memory, Timeout: time.Duration(w.Timeout), TLS: tlsConfig, Proxy: proxy,
		UserAgent:   "ndrbridge/" + o.Version,
		Concurrency: w.Concurrency, Gzip: w.Gzip,
		Template: template, SignSecrets: signSecrets,
		MaxBodyBytes: int(w.MaxBodyBytes), AllowLinkLocal: w.AllowLinkLocal, Lease: o.Lease,
	}
	if e := w.Expect; e != nil {
		options.Expect = &webhook.Expect{Status: e.Status, Headers: e.Headers, JSON: e.JSON}
	}
	if a := w.Auth.OAuth; a != nil {
		options.OAuth = &oauthtoken.Grant{
			TokenURL: a.TokenURL.Value(), ClientID: a.ClientID, ClientSecret: secrets.read("auth.oauth.client_secret", a.ClientSecret),
			Scope: a.Scope, Audience: a.Audience,
			Style: map[string]oauth2.AuthStyle{"header": oauth2.AuthStyleInHeader, "params": oauth2.AuthStyleInParams}[a.Style],
		}
	}
	if secrets.err != nil {
		return nil, secrets.err
	}
	return webhook.New(options)
}

// webhookTemplate returns the template that renders bodies, or nil if bodies are
// CloudEvents.
func webhookTemplate(w configs.Webhook) (*render.Template, error) {
	text, err := w.ReadTemplate()
	if err != nil || text == "" {
		return nil, err
	}
	return render.Compile(text, w.JSON())
}

// openPreset returns the preset of a webhook, or nil if it has none. It reads the key
// again on each call.
func openPreset(s configs.Sink, o SinkOptions) (*webhook.Preset, error) {
	w := *s.Webhook
	if w.Ticket != nil {
		return ticketPreset(s.Name, w, o)
	}
	key, err := w.Key.Read()
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if w.Preset == "" {
		return nil, nil
	}
	preset, found := presets.Find(w.Preset)
	if !found {
		return nil, fmt.Errorf("unknown preset %q", w.Preset)
	}
	return preset.Open(s.PresetSettings(key))
}

// Link links a detection with the ticket that a sink opened for it, as ticketopener.Options.Link.
type Link = func(context.Context, transform.Event, ticketopener.Ticket) error

// ticketPreset returns the preset of a sink that opens tickets.
func ticketPreset(sink string, w configs.Webhook, o SinkOptions) (*webhook.Preset, error) {
	system, err := w.TicketSystem()
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	link := o.Link
	if !w.Ticket.Link {
		link = nil
	}
	return ticketopener.New(ticketopener.Options{
		Sink: sink, System: system, Follow: w.Ticket.Following(), Group: w.Ticket.Grouping(),
		Link: link, Notes: o.Notes, SearchDelay: time.Duration(w.Ticket.SearchDelay), Now: time.Now,
	}), nil
}
