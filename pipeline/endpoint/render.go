package endpoint

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"ndrbridge/configs"
	"ndrbridge/internal/redact"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// Renderer renders what a sink sends. It contacts nothing.
type Renderer struct {
	compose func([]transform.Event) (webhook.Request, error) // like webhook.Preset.Compose
	grouper webhook.Grouper                                  // nil if requests carry any events
	sink    configs.Sink
	secrets redact.Secrets
	matches func(transform.Event) (bool, error)            // nil if it takes all
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

// NewRenderer returns the renderer of a sink for which IsRendered reports true. version is
// that of the bridge. The error contains no secrets.
func NewRenderer(s configs.Sink, version string) (*Renderer, error) {
	if !IsRendered(s) {
		return nil, errors.New("the sink sends CloudEvents: it has no preset, no template, no tickets and no other format")
	}
	r := &Renderer{sink: s}
	var err error
	if s.Webhook == nil {
		r.compose = webhook.Options{MaxBodyBytes: math.MaxInt}.Compose
	} else if err = r.composeWebhook(); err != nil {
		return nil, err
	}
	if r.matches, err = Match(s); err != nil {
		return nil, err
	}
	if r.prepare, err = Prepare(s, version); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Renderer) composeWebhook() error {
	w := *r.sink.Webhook
	preset, err := openPreset(r.sink, nil)
	if err != nil {
		return err
	}
	if preset != nil {
		r.compose, r.secrets = preset.Compose, redact.New(preset.Service().Secrets...)
		r.grouper, _ = preset.(webhook.Grouper)
		return nil
	}
	template, err := webhookTemplate(w)
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	r.compose = webhook.Options{
		Template: template, MaxBodyBytes: int(w.MaxBodyBytes),
		Mode: transform.Mode(r.sink.Mode), Format: format.Name(r.sink.Format), BatchEncoding: webhook.BatchEncoding(w.BatchEncoding),
	}.Compose
	return nil
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
		if r.grouper != nil {
			wanted = byGroup(wanted, r.grouper)
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

// byGroup sorts events by their groups, in the order of the groups' first events, as a sink
// sends them.
func byGroup(events []transform.Event, by webhook.Grouper) []transform.Event {
	first := make(map[string]int)
	for i, e := range events {
		if _, found := first[by.Group(e)]; !found {
			first[by.Group(e)] = i
		}
	}
	slices.SortStableFunc(events, func(a, b transform.Event) int { return first[by.Group(a)] - first[by.Group(b)] })
	return events
}

// take applies the sink's match, redaction and format to an event and reports whether it is
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
