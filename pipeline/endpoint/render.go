package endpoint

import (
	"errors"
	"fmt"
	"iter"

	"ndrbridge/configs"
	"ndrbridge/internal/redact"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Renderer renders the requests of a webhook that has a preset or a template, or that
// opens tickets. It contacts nothing.
type Renderer struct {
	compose func([]transform.Event) (webhook.Request, error) // like webhook.Preset.Compose
	method  string
	webhook configs.Webhook
	secrets redact.Secrets
	matches func(transform.Event) (bool, error)            // nil if it takes all
	prepare func(transform.Event) (transform.Event, error) // nil if nothing is redacted
}

// Rendered is a request without its secrets.
type Rendered struct {
	Events      int // number of events in the request
	Method, URL string
	Body        []byte
}

// NewRenderer returns the renderer of a sink. It returns an error without secrets if
// the sink has no preset and no template and opens no tickets, or if its settings are
// wrong.
func NewRenderer(s configs.Sink) (*Renderer, error) {
	w := s.Webhook
	if w == nil || w.Preset == "" && w.Ticket == nil && !w.HasTemplate() {
		return nil, errors.New("the sink has no preset and no template, and opens no tickets")
	}
	r := &Renderer{method: w.Method, webhook: *w}
	preset, err := openPreset(*w, nil)
	if err != nil {
		return nil, err
	}
	if preset != nil {
		r.compose, r.secrets = preset.Compose, redact.New(preset.Service().Secrets...)
	} else {
		template, err := webhookTemplate(*w)
		if err != nil {
			return nil, fmt.Errorf("template: %w", err)
		}
		r.compose = func(events []transform.Event) (webhook.Request, error) {
			body, err := template.Render(events[0], int(w.MaxBodyBytes))
			return webhook.Request{Events: 1, Body: body}, err
		}
	}
	if r.matches, err = Match(s); err != nil {
		return nil, err
	}
	if r.prepare, err = Prepare(s); err != nil {
		return nil, err
	}
	return r, nil
}

// Render yields the requests for events that arrive at once, except those that the
// sink's match excludes. An error concerns one event: the event cannot be sent, or its
// match failed, in which case it is sent nevertheless and its request follows.
func (r *Renderer) Render(events []transform.Event) iter.Seq2[Rendered, error] {
	return func(yield func(Rendered, error) bool) {
		wanted := make([]transform.Event, 0, len(events))
		for _, e := range events {
			e, send, err := r.take(e)
			if err != nil && !yield(Rendered{}, err) {
				return
			}
			if send {
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

// take applies the sink's match and redaction to an event and reports whether it is
// sent. An event on which the match fails is sent, as a runner does.
func (r *Renderer) take(e transform.Event) (_ transform.Event, send bool, err error) {
	send = true
	if r.matches != nil {
		send, err = r.matches(e)
	}
	if !send || r.prepare == nil {
		return e, send, err
	}
	prepared, failed := r.prepare(e)
	return prepared, failed == nil, errors.Join(err, failed)
}

func (r *Renderer) show(request webhook.Request) Rendered {
	url := r.webhook.URL.Value()
	if request.URL != nil {
		url = request.URL.String()
	}
	return Rendered{Events: request.Events, Method: r.method, URL: r.webhook.ShownURL(url), Body: []byte(r.secrets.Hide(string(request.Body)))}
}
