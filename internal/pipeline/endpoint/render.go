package endpoint

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"ndrbridge/configs"
	"ndrbridge/internal/redact"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// Renderer renders what a sink sends. It contacts nothing.
type Renderer struct {
	compose func([]transform.Event) (webhook.Request, error) // like webhook.Preset.Compose
	sink    configs.Sink
	secrets redact.Secrets
	selects sinks.Selection
	prepare func(transform.Event) (transform.Event, error) // nil if events are sent as they are
}

// Rendered is a request without its secrets, or the document of an event that is sent by
// another kind of sink.
type Rendered struct {
	Events      int    // number of events in the request
	Method, URL string // for a sink that is no webhook, its kind and its name
	Body        []byte
}

// IsRendered reports whether a sink sends anything but CloudEvents: whether it is a webhook
// that has a preset or a template or opens tickets, or has another format.
func IsRendered(s configs.Sink) bool {
	if format.Name(s.Format) != format.CloudEvents && s.Format != "" {
		return true
	}
	w := s.Webhook
	return w != nil && (w.Preset != "" || w.Ticket != nil || w.HasTemplate())
}

// NewRenderer returns the renderer of a sink, which reads no file with a key. version is that of
// the bridge. The error contains no secrets.
func NewRenderer(s configs.Sink, version string) (*Renderer, error) {
	if s.Webhook != nil {
		w := *s.Webhook
		if w.Key.File != "" {
			w.Key = configs.NewSecret("unread-key-file") // presets require a key
		}
		if w.URLFile != "" {
			w.URL = configs.NewURL("https://unread-url-file")
		}
		s.Webhook = &w
	}
	r := &Renderer{sink: s}
	var err error
	if s.Webhook == nil {
		r.compose = webhook.Options{MaxBodyBytes: math.MaxInt}.Compose
	} else if err = r.composeWebhook(); err != nil {
		return nil, err
	}
	if r.selects, err = Selection(s); err != nil {
		return nil, err
	}
	if r.prepare, err = Prepare(s, version); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Renderer) composeWebhook() error {
	w := *r.sink.Webhook
	preset, err := openPreset(r.sink, SinkOptions{})
	if err != nil {
		return err
	}
	if preset != nil {
		r.compose, r.secrets = preset.Compose, redact.New(preset.Secrets...)
		return nil
	}
	template, err := webhookTemplate(w)
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	r.compose = webhook.Options{
		Template: template, MaxBodyBytes: int(w.MaxBodyBytes),
		Mode: transform.Mode(r.sink.Mode), Format: format.Name(r.sink.Format), Lines: w.BatchEncoding == "ndjson",
	}.Compose
	return nil
}

// Render yields the requests for events that arrive at once, except those that the
// sink's match excludes. An error concerns one event: the event cannot be sent, or its
// match failed, in which case its request follows if on_error is send.
func (r *Renderer) Render(events []transform.Event) iter.Seq2[Rendered, error] {
	return func(yield func(Rendered, error) bool) {
		wanted := make([]transform.Event, 0, len(events))
		for _, e := range events {
			e, d := r.prepared(e)
			if d.Err != nil && !yield(Rendered{}, d.Err) {
				return
			}
			if d.Verdict == sinks.VerdictSend {
				wanted = append(wanted, e)
			}
		}
		for len(wanted) > 0 {
			request, err := r.compose(wanted)
			if err != nil {
				if !yield(Rendered{}, err) {
					return
				}
				wanted = wanted[1:]
				continue
			}
			if !request.Nothing && !yield(r.show(request), nil) {
				return
			}
			wanted = wanted[request.Events:]
		}
	}
}

// Decision is the treatment of an event that arrives alone.
type Decision struct {
	Verdict sinks.Verdict
	// Err is the failure of match, whatever the verdict, or the reason why the event
	// cannot be sent, which makes it a dead letter.
	Err error
	// Unsendable means that the event was selected, but cannot be sent.
	Unsendable bool
	// Nothing means that the sink acknowledges the event without sending anything: one
	// that opens tickets, and this one opens none.
	Nothing bool
}

// prepared selects, redacts and encodes an event, as a runner does.
func (r *Renderer) prepared(e transform.Event) (transform.Event, Decision) {
	verdict, err := r.selects.Decide(e)
	d := Decision{Verdict: verdict, Err: err}
	if verdict == sinks.VerdictSend && r.prepare != nil {
		if e, err = r.prepare(e); err != nil {
			d = d.unsendable(err)
		}
	}
	return e, d
}

func (d Decision) unsendable(err error) Decision {
	return Decision{Verdict: sinks.VerdictDeadLetter, Err: errors.Join(d.Err, err), Unsendable: true}
}

// Decide returns the sink's treatment of an event, if its target accepts it.
func (r *Renderer) Decide(e transform.Event) Decision {
	e, d := r.prepared(e)
	if d.Verdict != sinks.VerdictSend {
		return d
	}
	request, err := r.compose([]transform.Event{e})
	if err != nil {
		return d.unsendable(err)
	}
	d.Nothing = request.Nothing
	return d
}

func (r *Renderer) show(request webhook.Request) Rendered {
	shown := Rendered{Events: request.Events, Method: r.sink.Kind(), URL: r.sink.Name, Body: []byte(r.secrets.Hide(string(request.Body)))}
	if w := r.sink.Webhook; w != nil {
		url := w.URL.Value()
		if request.URL != nil {
			url = request.URL.String()
		}
		shown.Method, shown.URL = w.Method, w.ShownURL(url)
	}
	return shown
}
