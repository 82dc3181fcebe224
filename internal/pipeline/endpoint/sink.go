package endpoint

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
	"ndrbridge/transform/match"
)

// memoryKept is the least time that a sink keeps its memory of a detection after the
// last new version of it. The memory of a detection that is still tracked is kept
// longer.
const memoryKept = 90 * 24 * time.Hour

// SinkOptions configure OpenSink beyond the sink's configuration.
type SinkOptions struct {
	Version  string
	Memories webhook.MemoryStore // where a sink remembers detections
	Link     Link                // used by sinks that open tickets
	Notes    *ticketopener.Notes // that comments on tickets become; nil: they become none
	Stdout   io.Writer           // used by file sinks with the path -
	Log      *slog.Logger
	// Lease must be valid when something is sent over a network; nil: it never ends.
	Lease *lease.Lease
}

// Selection returns what decides which events a sink sends. Its Match is nil if all events
// match. A sink whose tickets follow their detections is sent what does not match, too, if its
// detection has a ticket: a detection whose risk has fallen is still closed and reopened.
func Selection(s configs.Sink) (sinks.Selection, error) {
	selection := sinks.Selection{OnError: sinks.MatchErrorPolicy(s.OnError), Notify: s.Notified()}
	if s.Match == "" {
		return selection, nil
	}
	wanted, err := match.Compile(s.Match)
	if err != nil {
		return selection, fmt.Errorf("match: %w", err)
	}
	selection.Match = wanted.Matches
	if s.Follows() {
		selection.Match = func(e transform.Event) (bool, error) {
			matches, err := wanted.Matches(e)
			return matches || err == nil && transform.Text(jsonscan.At(e.Data(), "detection.ticket_id")) != "", err
		}
	}
	return selection, nil
}

// Prepare returns the function that brings an event into the form in which it is sent: it
// redacts the event, and then gives it its document in the sink's format. It is nil if
// events are sent as they are. version is that of the bridge. The function is safe for
// concurrent use.
func Prepare(s configs.Sink, version string) (func(transform.Event) (transform.Event, error), error) {
	redact := func(e transform.Event) (transform.Event, error) { return e, nil }
	if len(s.Redact) > 0 {
		redaction, err := transform.ParseRedaction(s.Redact)
		if err != nil {
			return nil, fmt.Errorf("redact: %w", err)
		}
		redact = redaction.Apply
	}
	if name := format.Name(s.Format); name != "" && name != format.CloudEvents {
		return encoded(redact, name, version)
	}
	if len(s.Redact) == 0 {
		return nil, nil
	}
	return redact, nil
}

// encoded returns redact followed by an encoder of its own. The two workers of a runner
// share the encoder, which must not be used by several goroutines at once.
func encoded(redact func(transform.Event) (transform.Event, error), name format.Name, version string) (func(transform.Event) (transform.Event, error), error) {
	encoder, err := format.New(name, format.Options{Version: version})
	if err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	var mu sync.Mutex // guards encoder
	return func(e transform.Event) (transform.Event, error) {
		e, err := redact(e)
		if err != nil {
			return e, err
		}
		mu.Lock()
		defer mu.Unlock()
		return encoder.Encode(e), nil
	}, nil
}
