package routing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"ndrbridge/transform"
)

// Run runs a test. It returns what differs from the expectations, for people, of several
// lines each; none if the test passes. The error means that the test cannot be run.
func (r *Router) Run(t test) ([]string, error) {
	events, err := r.eventsOf(&t)
	if err != nil {
		return nil, err
	}
	var names []string
	if t.Sinks != nil {
		names = *t.Sinks
	}
	for _, name := range append(slices.Clone(names), t.outputs()...) {
		if r.find(name) == nil {
			return nil, unknownSink(name, r.names())
		}
	}
	var failures []string
	if t.Sinks != nil {
		failures = r.compareSinks(names, events)
	}
	for _, name := range t.outputs() {
		for _, failure := range t.Output[name].compare(r.find(name).send(events)) {
			failures = append(failures, name+": "+failure)
		}
	}
	return failures, nil
}

// compareSinks compares the sinks that send one of the events with the expected ones, and returns
// the differences with their reasons. A sink that selects an event and cannot send it always
// differs: the event would be a dead letter.
func (r *Router) compareSinks(want []string, events []transform.Event) []string {
	var failures, got []string
	for _, s := range r.sinks {
		sent, unsendable := false, false
		var routes []string
		for _, e := range events {
			route := s.route(e)
			sent, unsendable = sent || route.Result == Sent, unsendable || route.unsendable
			for _, reason := range route.Reasons {
				routes = append(routes, fmt.Sprintf("  %s %s: %s: %s", e.Type, e.ID, route.Result, reason))
			}
		}
		if sent {
			got = append(got, s.config.Name)
		}
		expected := slices.Contains(want, s.config.Name)
		switch {
		case expected && !sent:
			failures = append(failures, strings.Join(append([]string{s.config.Name + " should send, and does not"}, routes...), "\n"))
		case sent && !expected:
			failures = append(failures, strings.Join(append([]string{s.config.Name + " sends, and should not"}, routes...), "\n"))
		case unsendable:
			failures = append(failures, strings.Join(append([]string{s.config.Name + " cannot send an event"}, routes...), "\n"))
		}
	}
	expected := slices.Sorted(slices.Values(want))
	slices.Sort(got)
	if !slices.Equal(slices.Compact(expected), got) {
		failures = slices.Insert(failures, 0, fmt.Sprintf("sinks\n- [%s]\n+ [%s]", strings.Join(expected, ", "), strings.Join(got, ", ")))
	}
	return failures
}

// sent is the output of a sink for events.
type sent struct {
	events int
	bodies [][]byte
	failed []string // why events cannot be sent
}

// send renders events that arrive together.
func (s *sink) send(events []transform.Event) sent {
	var all sent
	for batch := range slices.Chunk(events, max(1, s.config.Batch.MaxEvents)) {
		for request, err := range s.renderer.Render(batch) {
			if err != nil {
				all.failed = append(all.failed, err.Error())
				continue
			}
			all.events += request.Events
			all.bodies = append(all.bodies, bytes.Clone(request.Body))
		}
	}
	return all
}

// compare returns what differs from the expectations.
func (o output) compare(got sent) []string {
	var failures []string
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	values, invalid := got.values()
	text := string(bytes.Join(got.bodies, []byte("\n")))
	plain := text + "\n" + strings.Join(textsIn(values), "\n")
	if o.Events != nil && *o.Events != got.events {
		fail("events\n- %d\n+ %d", *o.Events, got.events)
	}
	for _, want := range o.Contains {
		if !strings.Contains(plain, want) {
			fail("contains\n- %s\n%s", want, added(text))
		}
	}
	for _, unwanted := range o.Lacks {
		if strings.Contains(plain, unwanted) {
			fail("lacks\n- %s\n%s", unwanted, added(text))
		}
	}
	if o.Lines != nil {
		if !slices.Equal(linesIn(text), *o.Lines) {
			fail("lines\n- %s\n%s", strings.Join(*o.Lines, "\n- "), added(text))
		}
	}
	if o.JSON != nil {
		if invalid != nil {
			fail("json: the output is not JSON: %v\n%s", invalid, added(text))
		} else {
			failures = append(failures, compareJSON(o.JSON, values)...)
		}
	}
	if len(failures) > 0 {
		for _, reason := range got.failed {
			fail("an event cannot be sent: %s", reason)
		}
	}
	return failures
}

// values returns the JSON values in the output, or an error if it is not JSON.
func (s sent) values() ([]any, error) {
	var values []any
	for _, body := range s.bodies {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		for {
			var value any
			err := decoder.Decode(&value)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return values, err
			}
			values = append(values, value)
		}
	}
	return values, nil
}

// textsIn returns the strings in JSON values, without their escapes.
func textsIn(value any) (found []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, element := range v {
			found = append(found, textsIn(element)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			found = append(found, textsIn(v[name])...)
		}
	}
	return found
}

func linesIn(text string) []string {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
}
