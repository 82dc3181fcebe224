package poller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// The names of the streams of blind spots.
const (
	StreamIntervals = "blind_spots/exclusion_intervals"
	StreamAlerts    = "blind_spots/alerts"
	StreamIngest    = "blind_spots/record_ingest"
	StreamTracking  = "blind_spots/ticket_tracking"
)

// NewExclusionIntervals returns a source of the exclusion intervals of an appliance that begin
// and end, by the appliance's clock and in UTC. One that is shorter than the time between two polls
// may not be noticed.
func NewExclusionIntervals(client *appliance.Client, store FollowUpStore, o StreamOptions) Source {
	return newBlindSpots(blindSpots{kind: transform.BlindInterval, of: isWithin}, client.ExclusionIntervals, store, StreamIntervals, o)
}

// NewDisabledAlerts returns a source of the alerts of an appliance that are disabled and enabled.
func NewDisabledAlerts(client *appliance.Client, store FollowUpStore, o StreamOptions) Source {
	return newBlindSpots(blindSpots{kind: transform.BlindAlert, of: isDisabled}, client.Alerts, store, StreamAlerts, o)
}

// NewRecordIngest returns a source of the halts of an appliance's record ingest. It is off while the
// appliance answers 422 about its cluster, as those with a third-party record store do.
func NewRecordIngest(client *appliance.Client, store FollowUpStore, o StreamOptions) Source {
	cluster := func(ctx context.Context, page *appliance.Page) error {
		err := client.Cluster(ctx, page)
		if e, ok := errors.AsType[*appliance.Error](err); ok && e.Status == http.StatusUnprocessableEntity {
			return fmt.Errorf("%w: a third-party record store has no cluster; set blind_spots.record_ingest to false: %w", errOff, err)
		}
		return err
	}
	return newBlindSpots(blindSpots{kind: transform.BlindIngest, of: isHalted, single: true}, cluster, store, StreamIngest, o)
}

// NewTicketTracking returns a source of whether an appliance's ticket tracking is switched off, also at
// the first contact. One that does not show that is taken to be on.
func NewTicketTracking(client *appliance.Client, store FollowUpStore, o StreamOptions) Source {
	l := newBlindSpots(blindSpots{kind: transform.BlindTracking, of: isUntracked, single: true}, client.TicketTracking, store, StreamTracking, o)
	l.announce = true
	return l
}

// blindSpots compares what makes an appliance blind.
type blindSpots struct {
	kind   string
	single bool // there is one object, which has no id
	// of returns whether an object makes the appliance blind at a time.
	of func(fields map[string][]byte, at time.Time) (blindness, error)
}

// blindness is what an object means at a time.
type blindness struct {
	open         bool
	since, until time.Time // zero: not known
}

func newBlindSpots(b blindSpots, fetch func(context.Context, *appliance.Page) error, store FollowUpStore, stream string, o StreamOptions) *listing {
	l := newListing(store, stream, o)
	l.fetch = fetch
	l.compare = func(_ context.Context, s snapshot) (listingChanges, error) { return b.compare(l.events, s) }
	return &l
}

// compare returns which blind spots are open now, but were not before, and the reverse.
func (b blindSpots) compare(encoder transform.Encoder, s snapshot) (c listingChanges, err error) {
	report := func(open bool, id string, spot []byte) error {
		event, err := encoder.BlindSpot(open, b.kind, id, spot, s.recorded)
		c.events = append(c.events, event)
		return err
	}
	open := make(map[string]bool)
	for i, object := range s.objects {
		fields := make(map[string][]byte)
		for name, value := range jsonscan.Members(object.Raw) {
			if slices.Contains(blindFields, string(name)) {
				fields[string(name)] = value
			}
		}
		id := b.kind
		if !b.single {
			if _, err := jsonscan.Integer(fields["id"]); err != nil {
				return c, fmt.Errorf("%s number %d: id: %w", b.kind, i, err)
			}
			id = string(jsonscan.Number(fields["id"]))
		}
		state, err := b.of(fields, s.at)
		switch {
		case err != nil:
			return c, fmt.Errorf("%s %s: %w", b.kind, id, err)
		case !state.open:
			continue
		case open[id]:
			return c, fmt.Errorf("%s %s is listed twice", b.kind, id)
		case len(open) == maxListed:
			return c, fmt.Errorf("more than %d blind spots of the kind %s are open", maxListed, b.kind)
		}
		open[id] = true
		if s.known[id] != nil {
			continue
		}
		if state.since.IsZero() {
			state.since = s.at
		}
		spot := transform.BlindSpot(b.kind, state.since, state.until, object.Raw)
		c.remember(id, spot)
		if err := report(true, id, spot); err != nil {
			return c, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.known)) {
		if !open[id] {
			c.forget(id)
			if err := report(false, id, s.known[id]); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// blindFields are the fields that decide.
var blindFields = []string{"id", "disabled", "enabled", "ingest_enabled", "interval_type", "start", "end"}

func isDisabled(alert map[string][]byte, _ time.Time) (blindness, error) {
	return blindness{open: string(alert["disabled"]) == "true"}, nil
}

func isHalted(settings map[string][]byte, _ time.Time) (blindness, error) {
	switch string(settings["ingest_enabled"]) {
	case "true":
		return blindness{}, nil
	case "false":
		return blindness{open: true}, nil
	}
	return blindness{}, errors.New("ingest_enabled is neither true nor false")
}

func isUntracked(settings map[string][]byte, _ time.Time) (blindness, error) {
	return blindness{open: string(settings["enabled"]) == "false"}, nil
}

// epochMonday is when the first Monday after the epoch began, in seconds.
const epochMonday = 4 * 24 * 60 * 60

// isWithin reports whether a time is in an exclusion interval. A repeated one may continue past
// midnight or the end of the week, with an end before its start.
func isWithin(interval map[string][]byte, at time.Time) (blindness, error) {
	const day = 24 * 60 * 60
	var period, origin int64 // in seconds
	switch kind := transform.Text(interval["interval_type"]); kind {
	case "onetime":
	case "daily":
		period = day
	case "weekly":
		period, origin = 7*day, epochMonday
	default:
		return blindness{}, fmt.Errorf("interval_type is %.40q; onetime, daily or weekly is known", kind)
	}
	seconds := func(name string) (int64, error) {
		n, err := jsonscan.Integer(interval[name])
		if err == nil && (n < 0 || n > 1<<40) {
			err = fmt.Errorf("%d is no time in seconds", n)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return n, nil
	}
	start, err := seconds("start")
	if err != nil {
		return blindness{}, err
	}
	end, err := seconds("end")
	if err != nil {
		return blindness{}, err
	}
	now := at.Unix()
	if period > 0 {
		if end < start {
			end += period
		}
		length := end - start
		start = now - (now-origin-start%period)%period // the last start
		end = start + length
	}
	return blindness{open: start <= now && now < end, since: time.Unix(start, 0), until: time.Unix(end, 0)}, nil
}
