package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/transform"
	"ndrbridge/transform/match"
)

// tailOptions selects what ndrbridge tail prints.
type tailOptions struct {
	since, until time.Time // zero: not given
	lines        int       // the last events of the journal; negative: all that are selected
	noFollow     bool
	stream       string
	match        string
	sink         string
}

const (
	maxLines   = 10_000   // of -n, which are held in memory
	maxHeld    = 64 << 20 // bytes of their events
	usualLines = 10
)

// complete checks the flags, and sets the fields that they imply.
func (o *tailOptions) complete(cmd *cobra.Command, since, until string) (err error) {
	if since != "" {
		if o.since, err = parseTime("since", since); err != nil {
			return err
		}
	}
	if until != "" {
		if o.until, err = parseTime("until", until); err != nil {
			return err
		}
		o.noFollow = true
	}
	given := cmd.Flags().Changed("lines")
	switch {
	case given && (o.lines < 0 || o.lines > maxLines):
		return fmt.Errorf("%w: --lines: must be 0 to %d; for more, use --since", commandline.ErrUsage, maxLines)
	case !o.until.IsZero() && o.until.Before(o.since):
		return fmt.Errorf("%w: --until is before --since", commandline.ErrUsage)
	case given:
	case since == "" && until == "" && o.noFollow:
		o.lines = usualLines
	case since != "" || until != "":
		o.lines = -1
	}
	return checkStream(o.stream)
}

// from returns the part of the journal to read.
func (o *tailOptions) from() admin.From {
	switch selective := o.stream != "" || o.match != "" || o.sink != "" || !o.until.IsZero(); {
	case !o.since.IsZero():
		return admin.From{Since: o.since}
	case o.lines < 0, o.lines > 0 && selective:
		return admin.From{Since: time.UnixMilli(0)}
	default:
		return admin.From{Last: uint64(o.lines)}
	}
}

// tailFilter returns the function that selects the events to print.
func (c *command) tailFilter(o tailOptions) (func(transform.Event) bool, error) {
	filters := []func(transform.Event) bool{func(e transform.Event) bool { return ofStream(e, o.stream) }}
	if !o.until.IsZero() {
		filters = append(filters, func(e transform.Event) bool { return !e.RecordedTime.After(o.until) })
	}
	if o.match != "" {
		m, err := match.Compile(o.match)
		if err != nil {
			return nil, fmt.Errorf("%w: --match: %w", commandline.ErrUsage, err)
		}
		filters = append(filters, c.matching(sinks.Selection{Match: m.Matches}, "--match"))
	}
	if o.sink != "" {
		wanted, err := c.sinkFilter(o.sink)
		if err != nil {
			return nil, err
		}
		filters = append(filters, wanted)
	}
	return func(e transform.Event) bool {
		return !slices.ContainsFunc(filters, func(keep func(transform.Event) bool) bool { return !keep(e) })
	}, nil
}

// matching returns a filter that keeps the events which selection sends. The first failure
// of its match is reported.
func (c *command) matching(selection sinks.Selection, name string) func(transform.Event) bool {
	reported := false
	return func(e transform.Event) bool {
		verdict, err := selection.Decide(e)
		if err != nil && !reported {
			reported = true
			fmt.Fprintf(c.stderr, "%s cannot be evaluated for event %s: %v; further such events are not reported\n", name, e.ID, err)
		}
		return verdict == sinks.VerdictSend
	}
}

// sinkFilter returns a filter that keeps the events which a sink of the configuration
// receives.
func (c *command) sinkFilter(name string) (func(transform.Event) bool, error) {
	config, err := c.load()
	if err != nil {
		return nil, fmt.Errorf("--sink requires the configuration, which contains the match of the sink: %w", err)
	}
	i := slices.IndexFunc(config.Sinks, func(s configs.Sink) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("--sink: the configuration has no sink %q: it has %s", name, strings.Join(sinkNames(config), ", "))
	}
	selection, err := endpoint.Selection(config.Sinks[i])
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", name, err)
	}
	return c.matching(selection, "match of "+name), nil
}

// errTailed ends a tail at the end of the journal.
var errTailed = errors.New("the end of the journal")

// tail prints the events that o and keep select, until ctx is done or, with o.noFollow, the
// end of the journal.
func (c *command) tail(ctx context.Context, control *admin.Client, o tailOptions, keep func(transform.Event) bool) error {
	from := o.from()
	live := o.lines == 0 && !o.noFollow // nothing of the journal is selected
	last := newest{n: o.lines, maxBytes: maxHeld}
	end := func() error {
		live = true
		for _, e := range last.kept() {
			if err := c.printEvent(e); err != nil {
				return err
			}
		}
		if last.short {
			fmt.Fprintf(c.stderr, "fewer than %d events are printed, because the last ones have more than %s; for more, use --since\n", o.lines, terminal.Bytes(maxHeld))
		}
		if o.noFollow {
			return errTailed
		}
		return nil
	}
	if !live {
		from.Live = end
	}
	err := control.Tail(ctx, from, func(e transform.Event) error {
		switch {
		case !keep(e):
			return nil
		case !live && o.lines >= 0:
			last.add(e)
			return nil
		}
		return c.printEvent(e)
	})
	switch {
	case ctx.Err() != nil: // Ctrl-C is the normal end
		return nil
	case errors.Is(err, errTailed):
		return nil
	case errors.Is(err, admin.ErrNotRunning):
		return fmt.Errorf("%w: start it with ndrbridge run, give the address of a running one with --admin, or print only what the journal holds with --no-follow", err)
	}
	return err
}

// newest holds the last of the events that were added: n, or fewer if they have more than
// maxBytes, but at least one.
type newest struct {
	n, maxBytes int
	events      []transform.Event
	bytes       int  // of events
	short       bool // take returned fewer than n because of maxBytes
}

// add adds an event, and drops the oldest ones from time to time.
func (l *newest) add(e transform.Event) {
	l.events, l.bytes = append(l.events, e), l.bytes+len(e.Structured())
	if len(l.events) >= 2*l.n+usualLines || l.bytes >= 2*l.maxBytes {
		l.events = l.kept()
	}
}

// kept returns the events to keep.
func (l *newest) kept() []transform.Event {
	first := len(l.events)
	for l.bytes = 0; first > 0 && len(l.events)-first < l.n; first-- {
		size := len(l.events[first-1].Structured())
		if l.bytes > 0 && l.bytes+size > l.maxBytes {
			break
		}
		l.bytes += size
	}
	held := l.events[first:]
	l.short = len(held) < l.n && (l.short || first > 0)
	clear(l.events[:first])
	return held
}
