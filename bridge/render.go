package bridge

import (
	"errors"
	"fmt"
	"iter"

	"ndrbridge/configs"
	"ndrbridge/internal/redact"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Renderer shows what a webhook with a preset or a template would be sent, and with
// what one that opens tickets would open them. It contacts nobody.
type Renderer struct {
	compose func([]transform.Event) (webhook.Request, error) // as webhook.Preset has it
	method  string
	webhook configs.Webhook
	secrets redact.Secrets
	matches func(transform.Event) (bool, error)            // nil: all
	prepare func(transform.Event) (transform.Event, error) // nil: all of it
}

// Rendered is a request as a person may see it: without secrets.
type Rendered struct {
	Events      int // that it carries
	Method, URL string
	Body        []byte
}

// NewRenderer makes the renderer of a sink. The error tells that it has no preset and
// no template, and opens no tickets, or what is wrong with the sink's settings, without a secret.
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
	if r.matches, err = matchFor(s); err != nil {
		return nil, err
	}
	if r.prepare, err = prepareFor(s); err != nil {
		return nil, err
	}
	return r, nil
}

// Render makes the requests for events that come at once, of which it leaves out
// those that the sink's match does not want. An error takes the place of a request
// and is about one event: that it cannot be sent, or that its match failed, and
// then it is sent all the same.
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

// take is what the sink sends of an event, if it does. One over which the match
// fails is sent, as a runner does.
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
