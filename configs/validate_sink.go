package configs

import (
	"net"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"ndrbridge/transform/match"
)

func (c checks) sinks(sinks []Sink, state string) {
	if len(sinks) == 0 {
		c.wrong("sinks", "has no sinks; add one with name and kafka, nats, webhook or file, or set NDRBRIDGE_SINKS_0_NAME and so on")
	}
	before := make(map[string]string)
	for i, s := range sinks {
		path := item("sinks", i)
		c.name(path+".name", s.Name, before)
		c.sink(path, s)
		if s.File == nil || s.File.Path == "" {
			continue
		}
		if samePath(s.File.Path, state) {
			c.wrong(path+".file.path", "is the state file; choose another path")
		}
		for j, other := range sinks[:i] {
			if other.File != nil && samePath(s.File.Path, other.File.Path) {
				c.wrong(path+".file.path", "is also written by %s; choose another path", item("sinks", j))
			}
		}
	}
}

// modes returns the content modes that a kind of sink supports.
func modes(kind string) []string {
	switch kind {
	case "webhook":
		return []string{"structured", "binary", "batch"}
	case "file":
		return []string{"structured"}
	}
	return []string{"structured", "binary"}
}

func (c checks) sink(path string, s Sink) {
	var kinds []string
	if s.Kafka != nil {
		kinds = append(kinds, "kafka")
		c.kafka(path+".kafka", *s.Kafka)
	}
	if s.NATS != nil {
		kinds = append(kinds, "nats")
		c.nats(path+".nats", *s.NATS)
	}
	if s.Webhook != nil {
		kinds = append(kinds, "webhook")
		c.webhook(path+".webhook", *s.Webhook)
		c.webhookBody(path+".webhook", *s.Webhook, s.Mode)
	}
	if s.File != nil {
		kinds = append(kinds, "file")
	}
	switch len(kinds) {
	case 0:
		c.wrong(path, "has no destination; add one of kafka, nats, webhook and file")
	case 1:
		c.mode(path+".mode", s)
	default:
		c.wrong(path, "has %s; keep one, and add a separate sink for each of the others", strings.Join(kinds, " and "))
	}
	c.retry(path+".retry", s.Retry.Initial, s.Retry.Max)
	if s.Match != "" {
		if _, err := match.Compile(s.Match); err != nil {
			c.wrong(path+".match", "%v", err)
		}
	} else if s.OnError != "" {
		c.wrong(path+".on_error", "requires match, which is not set; add match, or leave it out")
	}
	for i, field := range s.Redact {
		if !fieldPath.MatchString(field) {
			c.wrong(item(path+".redact", i), "%q is not the path of a field; write names joined by dots, such as detection.description", field)
		}
	}
}

func (c checks) mode(path string, s Sink) {
	allowed := modes(s.Kind())
	switch {
	case !slices.Contains(modes("webhook"), s.Mode): // reported by the oneof tag
	case s.Webhook != nil && s.Webhook.Preset != "" && s.Mode != "structured":
		c.wrong(path, "%q is not supported with a preset, which uses the service's own protocol; leave it out", s.Mode)
	case !slices.Contains(allowed, s.Mode):
		c.wrong(path, "%q is not supported by %s, which supports %s", s.Mode, s.Kind(), strings.Join(allowed, ", "))
	}
}

func (c checks) lag(path string, l Lag, journal Size) {
	if l.MaxBytes >= journal && l.MaxBytes > 0 {
		c.wrong(path+".max_bytes", "is %s, which the journal cannot hold (journal.max_bytes: %s); write less", l.MaxBytes, journal)
	}
	if l.Policy == LagSkip && !l.IsBounded() && !c.failed(path+".max_age") && !c.failed(path+".max_bytes") {
		c.wrong(path+".policy", "is skip without a limit; set max_age, max_bytes or both, or policy to block")
	}
}

var (
	fieldPath    = regexp.MustCompile(`^[^."\\]+(\.[^."\\]+)*$`)
	placeholder  = regexp.MustCompile(`\{[^{}]*\}`)
	topicPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	streamName   = regexp.MustCompile(`^[^\s.*>/\\]+$`)
	tokenPattern = regexp.MustCompile(`^[^\s*>]+$`)
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// template checks the placeholders of a topic or a subject, and returns it with each
// replaced by an x.
func (c checks) template(path, template string) string {
	filled := placeholder.ReplaceAllStringFunc(template, func(name string) string {
		switch name {
		case "{stream}", "{appliance}", "{action}":
		default:
			c.wrong(path, "%q is not known; use {stream}, {appliance} and {action}", name)
		}
		return "x"
	})
	if strings.ContainsAny(filled, "{}") {
		c.wrong(path, "%q has an unmatched brace; use {stream}, {appliance} and {action}", template)
	}
	return filled
}

func (c checks) kafka(path string, k Kafka) {
	c.kafkaConnection(path, k)
	if filled := c.template(path+".topic", k.Topic); k.Topic != "" && !topicPattern.MatchString(filled) || filled == "." || filled == ".." {
		c.wrong(path+".topic", "%q is not a topic name; write letters, digits, dots, - and _", k.Topic)
	}
}

// kafkaConnection checks the keys of k that configure the connection.
func (c checks) kafkaConnection(path string, k Kafka) {
	for i, broker := range k.Brokers {
		host, port, err := net.SplitHostPort(broker)
		if err != nil || host == "" || !validPort(port) {
			c.wrong(item(path+".brokers", i), "%q is not an address; write host:port, usually with port 9092", broker)
		}
	}
	if k.TLS != nil {
		c.tls(path+".tls", *k.TLS)
	}
	if k.SASL.Mechanism == "" {
		if k.SASL != (SASL{}) {
			c.wrong(path+".sasl.mechanism", "is missing; write plain, scram-sha-256 or scram-sha-512")
		}
	} else {
		c.present(path+".sasl.username", k.SASL.Username)
		c.presentSecret(path+".sasl.password", k.SASL.Password)
	}
}

func (c checks) nats(path string, n NATS) {
	c.natsConnection(path, n)
	if n.Stream != "" && !streamName.MatchString(n.Stream) {
		c.wrong(path+".stream", "%q is not a stream name; leave out blanks and . * > / \\", n.Stream)
	}
	if n.CreateStream && n.Stream == "" {
		c.wrong(path+".create_stream", "is true without a stream; set stream to the name to create")
	}
	for token := range strings.SplitSeq(c.template(path+".subject", n.Subject), ".") {
		if n.Subject != "" && !tokenPattern.MatchString(token) {
			c.wrong(path+".subject", "%q is not a valid subject to publish to; write words separated by dots, without blanks, * and >", n.Subject)
		}
	}
}

// natsConnection checks the keys of n that configure the connection.
func (c checks) natsConnection(path string, n NATS) {
	if n.URL.Value() != "" {
		for part := range strings.SplitSeq(n.URL.Value(), ",") {
			c.url(path+".url", NewURL(strings.TrimSpace(part)), "nats", "tls", "ws", "wss")
		}
	}
	var credentials []string
	for _, one := range []struct {
		name string
		set  bool
	}{
		{"creds_file", n.CredsFile != ""},
		{"nkey_file", n.NKeyFile != ""},
		{"token", n.Token.IsSet()},
		{"username", n.Username != "" || n.Password.IsSet()},
	} {
		if one.set {
			credentials = append(credentials, one.name)
		}
	}
	if len(credentials) > 1 {
		c.wrong(path, "has several forms of authentication: %s; keep one of them", strings.Join(credentials, " and "))
	}
	c.login(path, n.Username, n.Password)
	if n.TLS != nil {
		c.tls(path+".tls", *n.TLS)
	}
}

func (c checks) webhook(path string, w Webhook) {
	if w.URL.Value() == "" {
		c.missing(path + ".url")
	} else {
		c.url(path+".url", w.URL, "https", "http")
	}
	c.headers(path+".headers", w.Headers)
	for name := range w.Headers {
		if textproto.CanonicalMIMEHeaderKey(name) == "Authorization" && w.Auth != (WebhookAuth{}) {
			c.wrong(join(path+".headers", name), "is set, and so is auth, which sets that header; keep one of them")
		}
	}
	if w.Auth.Bearer.IsSet() && (w.Auth.Username != "" || w.Auth.Password.IsSet()) {
		c.wrong(path+".auth", "has both bearer and a user name; keep one of them")
	}
	if u, err := url.Parse(w.URL.Value()); err == nil && u.User != nil {
		if w.Auth != (WebhookAuth{}) {
			c.wrong(path+".auth", "is set, and url has a user name; keep one of them")
		}
		for name := range w.Headers {
			if textproto.CanonicalMIMEHeaderKey(name) == "Authorization" {
				c.wrong(join(path+".headers", name), "is set, and url has a user name, which sets that header; keep one of them")
			}
		}
	}
	c.login(path+".auth", w.Auth.Username, w.Auth.Password)
	c.preset(path, w)
	c.tls(path+".tls", w.TLS)
	c.proxy(path+".proxy", w.Proxy)
}
