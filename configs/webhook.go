package configs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/textproto"
	"slices"
	"strings"

	"ndrbridge/internal/secretfile"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/render"
)

// Webhook configures delivery to an HTTP endpoint, or to a service for which there is a
// preset.
//
//	sinks:
//	  - name: soc
//	    webhook: {url: "https://collector.example/events", auth: {bearer_file: /run/secrets/soc}, gzip: true}
//	    mode: batch
//	  - name: chat
//	    webhook: {preset: slack, url: "https://hooks.slack.example/services/a-hook"}
//	    match: detection.risk_score >= 80
type Webhook struct {
	// URL is the URL to send requests to: http or https. It is required, unless the preset
	// has a default.
	URL URL `yaml:"url" schemes:"https,http"`
	// URLFile is the path of a file with the URL, instead of [Webhook.URL]: for a URL that
	// is a secret, as those of chats. The file is read again if the URL is rejected.
	URLFile string `yaml:"url_file"`
	// Preset is the service whose own format is sent instead of CloudEvents. It determines
	// which of the keys from [Webhook.Key] to [Webhook.Stream] may be set, and the defaults
	// of other keys of the sink: see the table of presets in the page about sinks.
	Preset string `yaml:"preset" oneof:"{presets}"`
	// Key is the secret of a preset, in addition to secrets in its URL.
	Key Secret `yaml:"key"`
	// Channel is the channel in which the slack bot posts; it requires [Webhook.Key].
	Channel string `yaml:"channel"`
	// Updates is what the slack bot does with later versions of a detection. edit: it edits
	// its message to show the latest version. thread: it replies to its message. post: it
	// posts a new message. Absent: edit.
	Updates string `yaml:"updates" oneof:"edit,thread,post"`
	// Index is the index for splunk_hec. Absent: the default index of the token.
	Index string `yaml:"index"`
	// SourceType is the source type for splunk_hec. Absent: ndrbridge:detection,
	// ndrbridge:audit, ndrbridge:record or ndrbridge:event.
	SourceType string `yaml:"source_type"`
	// Service is the service of the logs for datadog. Absent: ndrbridge.
	Service string `yaml:"service"`
	// Tags are additional tags of the logs for datadog, such as env:prod.
	Tags []string `yaml:"tags"`
	// RuleID is the immutable id of the data collection rule for sentinel: dcr- and 32
	// digits.
	RuleID string `yaml:"rule_id"`
	// Stream is the stream of the data collection rule for sentinel. Absent:
	// Custom-NdrbridgeDetection, Custom-NdrbridgeAudit, Custom-NdrbridgeRecord or
	// Custom-NdrbridgeEvent, depending on the event's stream.
	Stream string `yaml:"stream"`
	// BatchEncoding is how a request of mode batch holds documents of JSON: json is an array,
	// ndjson one document per line. Documents of text are always lines. Absent: json.
	BatchEncoding string `yaml:"batch_encoding" oneof:"json,ndjson"`
	// Method is the HTTP method. Presets and ticket systems support POST only.
	Method string `yaml:"method" default:"POST" oneof:"POST,PUT,PATCH"`
	// Headers are HTTP headers to send with every request. Put keys and tokens under auth
	// if the receiver accepts them there.
	//
	// All values are Secrets, because receivers accept keys in headers of any name.
	Headers map[string]Secret `yaml:"headers"`
	Auth    WebhookAuth       `yaml:"auth"`
	// Timeout is how long one request may take, including reading the response and, with
	// splunk_hec, waiting until the events are indexed.
	Timeout Duration `yaml:"timeout" default:"30s" above:"0"`
	TLS     TLS      `yaml:"tls"`
	// Proxy is the URL of a proxy: http, https or socks5. Absent: the environment variables
	// HTTPS_PROXY and NO_PROXY apply.
	Proxy URL `yaml:"proxy" schemes:"http,https,socks5"`
	// Concurrency is the maximum number of requests in flight. Events with the same
	// partition key stay in order. A receiver that is overloaded gets fewer for a while. With
	// a preset or mode batch, a batch is divided into so many requests if each has 512 KiB or
	// more. Absent, with mode batch or tickets: 1.
	Concurrency int `yaml:"concurrency" default:"32" min:"1"`
	// Gzip compresses bodies of 1 KiB or more.
	Gzip bool `yaml:"gzip"`
	// MaxBodyBytes is the maximum size of a request body before compression. An event that
	// needs a larger body is dead-lettered.
	MaxBodyBytes Size `yaml:"max_body_bytes" default:"10MiB" above:"0"`
	// Template renders the body for each event, instead of CloudEvents. It is a Go
	// text/template over .event (its attributes, stream and action) and .detection, .audit
	// or .record, with the additional functions json, markdownEscape, truncate, default,
	// upper, lower, join and int. A missing field is empty. The body must be JSON, unless
	// [Webhook.Headers] sets another Content-Type.
	Template string `yaml:"template"`
	// TemplateFile is the path of a file with the template, instead of [Webhook.Template].
	TemplateFile string      `yaml:"template_file"`
	Sign         WebhookSign `yaml:"sign"`
	// Expect describes the answers that acknowledge events; not with a preset or tickets.
	// Absent: every answer of 2xx, unless its body is an HTML page.
	Expect *WebhookExpect `yaml:"expect"`
	// Ticket opens tickets. Absent: no tickets are opened.
	Ticket *TicketOpener `yaml:"ticket"`
	// AllowLinkLocal permits connections to link-local addresses and to the metadata
	// services of clouds, which hold credentials, such as 169.254.169.254. With a proxy,
	// the address of the proxy is checked.
	AllowLinkLocal bool `yaml:"allow_link_local"`
}

// WebhookAuth configures the Authorization header: a bearer token, a user name and a
// password, OAuth, or none of them.
type WebhookAuth struct {
	// Bearer is a bearer token; with [TicketOpener.System] rt a token, with redmine an API key,
	// which are sent as these systems expect them.
	Bearer Secret `yaml:"bearer"`
	// Username is the user name for basic authentication.
	Username string `yaml:"username" with:"password"`
	// Password is the password for basic authentication.
	Password Secret `yaml:"password" with:"username"`
	// OAuth obtains tokens. Absent: none are obtained.
	OAuth *WebhookOAuth `yaml:"oauth"`
}

// WebhookOAuth configures OAuth 2.0 client credentials: the bridge obtains a token, sends it
// with every request, and obtains another one shortly before it expires, or when the
// receiver refuses it. Token requests use the webhook's timeout, TLS, proxy and
// allow_link_local.
//
//	sinks:
//	  - name: soc
//	    webhook:
//	      url: https://collector.example/events
//	      auth:
//	        oauth: {token_url: "https://id.example/oauth2/token", client_id: an-id, client_secret_file: /run/secrets/soc}
type WebhookOAuth struct {
	ClientCredentials
	// Style is how the client id and the secret are sent. header: by HTTP Basic
	// authentication. params: as parameters in the body. auto: by header, or by params if
	// the token endpoint refuses that.
	Style string `yaml:"style" default:"auto" oneof:"auto,header,params"`
}

// WebhookSign signs requests as defined by Standard Webhooks, with each of the secrets:
// set the old and the new one while you change a secret. Without secrets, requests are
// not signed. It cannot be combined with gzip, a preset, or mode binary.
type WebhookSign struct {
	// Secrets are the secrets, each whsec_ followed by the base64 of 24 to 64 bytes.
	Secrets []Secret `yaml:"secrets"`
	// SecretFiles are the paths of files, each with one secret.
	SecretFiles []string `yaml:"secret_files"`
}

// WebhookExpect describes the answers that acknowledge events, among those of 2xx: all keys
// that are set must match, or the sink is halted. An HTML page that matches acknowledges, too.
//
//	sinks:
//	  - name: soc
//	    webhook:
//	      url: https://collector.example/events
//	      expect: {status: [202], headers: {X-Queue: soc}, json: {result.stored: true}}
type WebhookExpect struct {
	// Status are the permitted statuses.
	Status []string `yaml:"status" form:"success"`
	// Headers are the values of header fields, by name.
	Headers map[string]string `yaml:"headers"`
	// JSON are the values of members of the body, by the names that lead to them, joined by
	// dots. Of a body, the first 64 KiB are read.
	JSON map[string]string `yaml:"json"`
}

// IsSet reports whether requests are signed.
func (s WebhookSign) IsSet() bool { return len(s.Secrets)+len(s.SecretFiles) > 0 }

// Read returns all secrets. It reads files again at each call. Errors are those of
// Secret.Read.
func (s WebhookSign) Read() ([]string, error) {
	var all []string
	for _, secret := range s.each() {
		text, err := secret.Read()
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// each returns all secrets, those in files last.
func (s WebhookSign) each() []Secret {
	all := append([]Secret(nil), s.Secrets...)
	for _, file := range s.SecretFiles {
		all = append(all, Secret{File: file})
	}
	return all
}

// HasTemplate reports whether a template renders the bodies.
func (w Webhook) HasTemplate() bool { return w.Template != "" || w.TemplateFile != "" }

// ReadTemplate returns the text of the template, or "" if there is none. It reads a
// template file again at each call.
func (w Webhook) ReadTemplate() (string, error) {
	if w.TemplateFile == "" {
		return w.Template, nil
	}
	text, err := secretfile.Read(w.TemplateFile)
	if err != nil {
		return "", fmt.Errorf("read template: %w", err)
	}
	return string(text), nil
}

// JSON reports whether the bodies that the template renders must be JSON: by default, and
// if the headers contain a Content-Type of JSON.
func (w Webhook) JSON() bool {
	for name, value := range w.Headers {
		if textproto.CanonicalMIMEHeaderKey(name) != "Content-Type" {
			continue
		}
		text, err := value.Read()
		if err != nil {
			return false
		}
		media, _, err := mime.ParseMediaType(text)
		return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
	}
	return true
}

func (w *Webhook) modes() []string { return []string{"structured", "binary", "batch"} }

func (w *Webhook) place() string {
	u, _ := w.ReadURL() // of a file that cannot be read, the host is unknown
	return u.hosts()
}

func (w *Webhook) summary() string {
	u, _ := w.ReadURL()
	return "webhook " + cmp.Or(w.ShownURL(u.Value()), w.URLFile)
}

// ReadURL returns the URL. It reads a file with it again at each call; errors are those of
// Secret.Read.
func (w Webhook) ReadURL() (URL, error) {
	if w.URLFile == "" {
		return w.URL, nil
	}
	text, err := Secret{File: w.URLFile}.Read()
	return NewURL(text), err
}

// readURL sets the URL in w to that of its file. It reports false if that cannot be read.
func (c checks) readURL(path string, w *Webhook) bool {
	if w.URLFile == "" {
		c.present(path+".url", w.URL.Value())
		return true
	}
	if w.URL.Value() != "" {
		c.wrong(path+".url", "is set, and so is url_file; keep one of them")
	}
	var err error
	if w.URL, err = w.ReadURL(); err != nil {
		if _, advised := errors.AsType[contentError](err); advised && !c.withoutSecrets { // others are reported by the tags
			c.wrong(path+".url_file", "%v", err)
		}
		return false
	}
	c.url(path+".url_file", w.URL.Value(), []string{"https", "http"})
	return true
}

func (c checks) webhook(path string, s Sink) {
	w := *s.Webhook
	hasURL := c.readURL(path, &w)
	s.Webhook = &w
	c.headers(path+".headers", w.Headers)
	if w.Auth != (WebhookAuth{}) {
		c.noAuthorization(path, w, "is set, and so is auth, which sets that header; keep one of them")
	}
	switch hasUser := w.Auth.Username != "" || w.Auth.Password.IsSet(); {
	case w.Auth.Bearer.IsSet() && hasUser:
		c.wrong(path+".auth", "has both bearer and a user name; keep one of them")
	case w.Auth.OAuth != nil && (w.Auth.Bearer.IsSet() || hasUser):
		c.wrong(path+".auth", "has oauth and another way to authenticate; keep one of them")
	}
	if w.URL.hasUser() {
		if w.Auth != (WebhookAuth{}) {
			c.wrong(path+".auth", "is set, and url has a user name; keep one of them")
		}
		c.noAuthorization(path, w, "is set, and url has a user name, which sets that header; keep one of them")
	}
	c.preset(path, s)
	c.sign(path+".sign", w, s.Mode)
	c.expect(path+".expect", w)
	c.bodyTemplate(path, w, s.Mode)
	if w.Ticket != nil && hasURL {
		c.ticketOpener(path, s)
	}
}

// noAuthorization reports a header Authorization with this message.
func (c checks) noAuthorization(path string, w Webhook, format string, args ...any) {
	for name := range w.Headers {
		if strings.EqualFold(name, "Authorization") {
			c.wrong(join(path+".headers", name), format, args...)
		}
	}
}

func (c checks) sign(path string, w Webhook, mode string) {
	switch {
	case !w.Sign.IsSet():
		return
	case w.Preset != "":
		c.wrong(path, "is not supported by preset %s, whose service does not check signatures; leave it out", w.Preset)
	case w.Gzip:
		c.wrong(path, "cannot be combined with gzip, because receivers do not agree on which body is signed; keep one of them")
	case mode == "binary":
		c.wrong(path, "cannot be combined with mode binary, because only the body is signed and the attributes are in the header; leave mode out")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		if slices.Contains(webhook.SignatureFields(), textproto.CanonicalMIMEHeaderKey(name)) {
			c.wrong(join(parent(path)+".headers", printable(name)), "is set, and so is sign, which sets that header; keep one of them")
		}
	}
	for i, secret := range w.Sign.each() {
		at := item(path+".secrets", i)
		if n := len(w.Sign.Secrets); i >= n {
			at = item(path+".secret_files", i-n)
		}
		text, err := secret.Read()
		if err != nil && c.withoutSecrets {
			continue
		}
		if err != nil {
			c.wrong(at, "%v%s", err, fileAdvice(err))
			continue
		}
		if _, err := webhook.ParseSignKey(text); err != nil {
			c.wrong(at, "%v; write whsec_ followed by the base64 of 24 to 64 bytes, as given by the receiver", err)
		}
	}
}

func (c checks) expect(path string, w Webhook) {
	e := w.Expect
	switch {
	case e == nil:
		return
	case w.Preset != "":
		c.wrong(path, "is not supported by preset %s, which knows the answers of its service; leave it out", w.Preset)
	case len(e.Status)+len(e.Headers)+len(e.JSON) == 0:
		c.wrong(path, "is empty; set status, headers or json, or leave it out")
	}
	c.expected(path+".headers", "header", "is not the name of a header; write letters, digits and -", e.Headers)
	c.expected(path+".json", "path", "is not a path; write names joined by dots, such as result.stored", e.JSON)
}

// expected checks the names and values of a map of expect.
func (c checks) expected(path, form, wrong string, values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := join(path, printable(name))
		switch {
		case !forms[form].pattern().MatchString(name):
			c.wrong(at, "%s", wrong)
		case values[name] == "":
			c.wrong(at, "is empty; write the value of an answer that acknowledges")
		}
	}
}

// bodyTemplate checks the template.
func (c checks) bodyTemplate(path string, w Webhook, mode string) {
	key := path + ".template"
	switch {
	case !w.HasTemplate():
		return
	case w.Template != "" && w.TemplateFile != "":
		c.wrong(key, "is set, and so is template_file; keep one of them")
	case w.TemplateFile != "":
		key += fileSuffix
	}
	switch {
	case w.Preset != "":
		c.wrong(key, "sets the body, and so does preset %s; keep one of them", w.Preset)
	case mode != "structured":
		c.wrong(key, "sets the body, and so does mode %s; leave mode out", mode)
	}
	text, err := w.ReadTemplate()
	if err != nil {
		return // reported as an unreadable file
	}
	if _, err := render.Compile(text, w.JSON()); err != nil {
		c.wrong(key, "%v", err)
	}
}
