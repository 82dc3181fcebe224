// Package routing explains which sinks of a configuration receive an event, and runs tests
// of that. It decides and renders with the code that delivers, and contacts nothing.
package routing

import (
	"fmt"
	"slices"
	"strings"

	"ndrbridge/configs"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/transform"
	"ndrbridge/transform/match"
)

// Router decides which sinks of a configuration receive an event.
type Router struct {
	// appliance is the name of the first appliance.
	appliance string
	sinks     []*sink
}

type sink struct {
	config   configs.Sink
	renderer *endpoint.Renderer
	match    *match.Explainer // nil: all events match
}

// Result is the result of an event at a sink. The set is closed.
type Result string

// The results.
const (
	Sent       Result = "sent"
	Filtered   Result = "filtered"    // it does not match
	DeadLetter Result = "dead_letter" // it cannot be sent
	Nothing    Result = "nothing"     // it opens no ticket
)

// Route is the result of an event at a sink.
type Route struct {
	Sink   string `json:"sink"`
	Result Result `json:"result"`
	// Reasons explain the result, for people.
	Reasons []string `json:"reasons"`

	unsendable bool // a dead letter although the sink selects the event
}

// New returns the router of a configuration, or of some of its sinks if only is not empty.
// version is that of the bridge. Files of secrets are not read.
func New(config *configs.Config, version string, only ...string) (*Router, error) {
	var names []string
	for _, s := range config.Sinks {
		names = append(names, s.Name)
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, unknownSink(name, names)
		}
	}
	r := new(Router)
	if len(config.Appliances) > 0 {
		r.appliance = config.Appliances[0].Name
	}
	for _, s := range config.Sinks {
		if len(only) > 0 && !slices.Contains(only, s.Name) {
			continue
		}
		of := &sink{config: s}
		var err error
		if of.renderer, err = endpoint.NewRenderer(s, version); err != nil {
			return nil, fmt.Errorf("sink %s: %w", s.Name, err)
		}
		if s.Match != "" {
			if of.match, err = match.NewExplainer(s.Match); err != nil {
				return nil, fmt.Errorf("sink %s: match: %w", s.Name, err)
			}
		}
		r.sinks = append(r.sinks, of)
	}
	return r, nil
}

func (r *Router) find(name string) *sink {
	for _, s := range r.sinks {
		if s.config.Name == name {
			return s
		}
	}
	return nil
}

func unknownSink(name string, known []string) error {
	return fmt.Errorf("there is no sink %q; choose from %s", name, strings.Join(known, ", "))
}

func (r *Router) names() []string {
	var names []string
	for _, s := range r.sinks {
		names = append(names, s.config.Name)
	}
	return names
}

// Route returns the result of an event at each sink, in the order of the configuration.
func (r *Router) Route(e transform.Event) []Route {
	routes := make([]Route, len(r.sinks))
	for i, s := range r.sinks {
		routes[i] = s.route(e)
	}
	return routes
}

func (s *sink) route(e transform.Event) Route {
	d := s.renderer.Decide(e)
	route := Route{Sink: s.config.Name, unsendable: d.Unsendable}
	if d.Err != nil {
		route.Reasons = append(route.Reasons, d.Err.Error())
	}
	switch {
	case d.Verdict == sinks.VerdictDeadLetter:
		route.Result = DeadLetter
	case d.Verdict == sinks.VerdictFilter:
		route.Result = Filtered
		if d.Err == nil && s.match != nil {
			route.Reasons = append(route.Reasons, s.match.Why(e))
		}
	case d.Nothing:
		route.Result = Nothing
		route.Reasons = append(route.Reasons, "the sink opens a ticket only for a detection that has none and was not changed by the bridge")
	default:
		route.Result = Sent
		switch {
		case d.Err != nil:
			route.Reasons = append(route.Reasons, "on_error is send")
		case s.match != nil:
			route.Reasons = append(route.Reasons, "it matches "+strings.TrimSpace(s.config.Match))
		default:
			route.Reasons = append(route.Reasons, "the sink has no match")
		}
	}
	return route
}
