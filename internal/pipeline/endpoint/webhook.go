package endpoint

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/oauth2"

	"ndrbridge/configs"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

func openWebhook(s configs.Sink, o SinkOptions) (sinks.Sink, error) {
	w := *s.Webhook
	memory := &webhook.Memory{Store: o.Memories, Sink: s.Name, Keep: memoryKept}
	tlsConfig, err := newTLS(w.TLS)
	if err != nil {
		return nil, err
	}
	proxy, err := ProxyURL(w.Proxy)
	if err != nil {
		return nil, err
	}
	bearer, err := w.Auth.Bearer.Read()
	if err != nil {
		return nil, fmt.Errorf("auth.bearer: %w", err)
	}
	password, err := w.Auth.Password.Read()
	if err != nil {
		return nil, fmt.Errorf("auth.password: %w", err)
	}
	oauth, err := webhookOAuth(w.Auth.OAuth)
	if err != nil {
		return nil, fmt.Errorf("auth.oauth.%w", err)
	}
	preset, err := openPreset(s, o.Link)
	if err != nil {
		return nil, err
	}
	headers, err := readHeaders(w.Headers)
	if err != nil {
		return nil, err
	}
	secrets, err := w.Sign.Read()
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	var template *render.Template
	if preset == nil {
		if template, err = webhookTemplate(w); err != nil {
			return nil, fmt.Errorf("template: %w", err)
		}
	}
	return webhook.New(webhook.Options{
		URL: w.URL.Value(), Method: w.Method, Headers: headers,
		Bearer: bearer, Username: w.Auth.Username, Password: password, OAuth: oauth,
		Mode: transform.Mode(s.Mode), Format: format.Name(s.Format), Lines: w.BatchEncoding == "ndjson",
		Preset: preset, Memory: memory, Timeout: time.Duration(w.Timeout), TLS: tlsConfig, Proxy: proxy,
		UserAgent:   "ndrbridge/" + o.Version,
		Concurrency: w.Concurrency, Gzip: w.Gzip,
		Template: template, SignSecrets: secrets,
		MaxBodyBytes: int(w.MaxBodyBytes), AllowLinkLocal: w.AllowLinkLocal, Lease: o.Lease,
	})
}

// webhookOAuth returns the client credentials that o describes; nil stays nil.
func webhookOAuth(o *configs.WebhookOAuth) (*webhook.OAuth, error) {
	if o == nil {
		return nil, nil
	}
	secret, err := o.ClientSecret.Read()
	if err != nil {
		return nil, fmt.Errorf("client_secret: %w", err)
	}
	style := map[string]oauth2.AuthStyle{"header": oauth2.AuthStyleInHeader, "params": oauth2.AuthStyleInParams}[o.Style]
	return &webhook.OAuth{
		TokenURL: o.TokenURL.Value(), ClientID: o.ClientID, ClientSecret: secret, Scope: o.Scope, Audience: o.Audience, Style: style,
	}, nil
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

// readHeaders returns the values of headers, which may be in files.
func readHeaders(headers configs.Headers) (map[string]string, error) {
	read := make(map[string]string, len(headers))
	for name, value := range headers {
		text, err := value.Read()
		if err != nil {
			return nil, fmt.Errorf("headers.%s: %w", name, err)
		}
		read[name] = text
	}
	return read, nil
}

// openPreset returns the preset of a webhook, or nil if it has none. It reads the key
// again on each call. link is used if the preset opens tickets.
func openPreset(s configs.Sink, link Link) (*webhook.Preset, error) {
	w := *s.Webhook
	if w.Ticket != nil {
		return ticketPreset(w, link)
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

// ticketPreset returns the preset that opens tickets.
func ticketPreset(w configs.Webhook, link Link) (*webhook.Preset, error) {
	system, err := w.TicketSystem()
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	if !w.Ticket.Link {
		link = nil
	}
	return ticketopener.New(ticketopener.Options{
		System: system, Link: link, SearchDelay: time.Duration(w.Ticket.SearchDelay), Now: time.Now,
	}), nil
}
