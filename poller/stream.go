package poller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/transform"
)

// StreamOptions configures the source of any stream.
type StreamOptions struct {
	Appliance string // its name
	URL       string // its address, remembered so that a change can be detected
	// Start returns where to begin if the state has no position, given the appliance's
	// time; the zero time means the oldest object that it keeps. A time that is not
	// before the appliance's means after the newest one.
	Start    func(now time.Time) time.Time
	PageSize int // the most objects to request at once, at least 2
	// Now is used for recordedtime and for speeds.
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics
}

// stream is the part of a source that does not depend on what the source reads.
type stream struct {
	store    Store
	source   checkpoint.Source
	events   transform.Encoder
	progress *progressMeter

	loaded    bool   // the position of the source is the one in the store
	committed []byte // the position in the store, if loaded

	limit   pageLimit
	pages   pageFailures
	objects failedPolls

	log        *slog.Logger
	metrics    *Metrics
	sweepError string // why the last page of a sweep failed; empty if it succeeded
}

func newStream(store Store, name string, o StreamOptions) stream {
	source := checkpoint.Source{Appliance: o.Appliance, Stream: name}
	return stream{
		store: store, source: source,
		events:   transform.Encoder{Appliance: o.Appliance},
		progress: &progressMeter{now: o.Now},
		limit:    newPageLimit(o.PageSize), objects: make(failedPolls), log: o.Log, metrics: o.Metrics,
	}
}

// Source returns the stream's name.
func (s *stream) Source() checkpoint.Source { return s.source }

// Progress implements Source.
func (s *stream) Progress() (p Progress, ok bool) { return s.progress.current() }

// run calls load if the position in the store is another one than the source has, and then poll.
// load takes over committed, which is nil at the first contact.
func (s *stream) run(ctx context.Context, load func(context.Context) error, poll func(context.Context) (Next, error)) (next Next, err error) {
	if err = s.update(ctx, load); err == nil {
		next, err = poll(ctx)
	}
	if errors.Is(err, checkpoint.ErrFenced) {
		return Soon, nil // an operator moved the position: the next poll reads it
	}
	return next, err
}

func (s *stream) update(ctx context.Context, load func(context.Context) error) error {
	stored, err := s.store.Position(ctx, s.source)
	if err != nil {
		return fmt.Errorf("read the position of %s: %w", s.source, err)
	}
	if s.loaded && bytes.Equal(stored, s.committed) {
		return nil
	}
	s.loaded, s.committed = false, stored
	err = load(ctx)
	s.loaded = err == nil
	return err
}

// write commits c with the encoded position.
func (s *stream) write(ctx context.Context, c checkpoint.Commit, position []byte) error {
	c.Source, c.Expect, c.Position = s.source, s.committed, position
	err := s.store.Commit(ctx, c)
	if err != nil {
		// It is not known whether it was written: the position in the store decides.
		s.loaded = false
		return fmt.Errorf("commit %d events of %s: %w", len(c.Events), s.source, err)
	}
	s.loaded, s.committed = true, position
	s.count(s.metrics.events, len(c.Events))
	s.count(s.metrics.dead, len(c.Dead))
	s.progress.events += len(c.Events)
	return nil
}

// swept returns the result of a poll that has read everything new, and then a page of a
// sweep with the result err. A failing sweep must not slow down what is new.
func (s *stream) swept(ctx context.Context, err error, running bool) (Next, error) {
	if e, ok := errors.AsType[*appliance.Error](err); ctx.Err() != nil || ok && (e.Refused() || e.Throttled()) {
		return Idle, err
	}
	if err == nil {
		s.sweepError = ""
		if running {
			return Soon, nil
		}
		return Idle, nil
	}
	if text := err.Error(); text != s.sweepError {
		s.sweepError = text
		s.log.Warn("the recent past could not be read again; the next poll retries", "error", err)
	}
	return Idle, nil
}

// committedPosition returns the position in the store. It returns ErrNoPosition if there is
// none.
func committedPosition[P any](ctx context.Context, s *stream, parse func([]byte) (P, error)) (p P, err error) {
	stored, err := s.store.Position(ctx, s.source)
	switch {
	case err != nil:
		return p, fmt.Errorf("read the position of %s: %w", s.source, err)
	case stored == nil:
		return p, fmt.Errorf("%s: %w", s.source, ErrNoPosition)
	}
	return parse(stored)
}

func parsePosition[P any](stored []byte) (p P, err error) {
	if err := json.Unmarshal(stored, &p); err != nil {
		return p, fmt.Errorf("read the position %q: %w", stored, err)
	}
	return p, nil
}

func encodePosition(p any) []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // a struct of numbers, strings and times
	}
	return b
}

// minLimit is the smallest page to request: one row to join on, and one to make progress
// with.
const minLimit = 2

// pageLimit is how many objects to request per page.
type pageLimit struct {
	now     int
	ceiling int // the most that the appliance accepts
	most    int // the most that the configuration allows
	good    int // pages in a row that were returned as requested
}

func newPageLimit(most int) pageLimit {
	most = max(most, minLimit)
	return pageLimit{now: most, ceiling: most, most: most}
}

// halve halves the limit after a page that was too large. It reports false if the limit
// cannot be smaller.
func (l *pageLimit) halve() bool {
	if l.now <= minLimit {
		return false
	}
	l.now, l.good = max(minLimit, l.now/2), 0
	return true
}

// grow raises the limit after some pages that were returned as requested.
func (l *pageLimit) grow() {
	const pages = 4
	if l.good++; l.good%pages == 0 {
		l.ceiling = min(2*l.ceiling, l.most)
		l.now = min(2*l.now, l.ceiling)
	}
}

// remedy is how to continue after a page failed.
type remedy int

const (
	failPoll   remedy = iota // the poll fails
	shrinkPage               // request the page again: its limit was lowered
	splitPage                // read the objects of the page one by one
)

// remedy returns how to continue after a page failed with err. atFault reports whether an
// object of the page is the reason; it is called if the limit cannot be.
func (s *stream) remedy(err error, atFault func() bool) remedy {
	switch {
	case errors.Is(err, appliance.ErrTooLarge):
	case limitMayBeRefused(err) && s.limit.halve():
		s.limit.ceiling = s.limit.now
		return shrinkPage
	case atFault():
	default:
		if limitMayBeRefused(err) { // the limit was not the reason
			s.limit = newPageLimit(s.limit.most)
		}
		return failPoll
	}
	if s.limit.halve() {
		return shrinkPage
	}
	return splitPage
}

// limitMayBeRefused reports whether err may mean that the appliance rejects a large limit.
// Which status it uses for that is not documented.
func limitMayBeRefused(err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && !e.Refused() && (e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity)
}

// unreadableAfter is how many polls in a row must fail for one object before it becomes a
// dead letter and the stream continues without it.
const unreadableAfter = 5

// errUnreadable means that the appliance lists an object, or has one in a page, but does
// not return it in a readable form.
var errUnreadable = errors.New("the appliance has it, but does not return it in a readable form")

// errNoOther means that no other object was found that can be read.
var errNoOther = errors.New("none was found")

// maxDeadBody bounds the part of an object that its dead letter keeps, in bytes.
const maxDeadBody = 64 << 10

// deadLetter returns the dead letter of an object that did not become an event because of
// err. raw is nil if the object was not read.
func deadLetter(key string, err error, raw []byte, now time.Time) checkpoint.DeadLetter {
	class := "invalid"
	switch {
	case errors.Is(err, appliance.ErrTooLarge):
		class = "too_large"
	case errors.Is(err, errUnreadable):
		class = "unreadable"
	}
	return checkpoint.DeadLetter{
		Key: key, Class: class, Reason: err.Error(), Time: now,
		Body: bytes.Clone(raw[:min(len(raw), maxDeadBody)]),
	}
}

// mayBeObject reports whether a request for one object, or for a page, may have failed
// because of what it asked for: not because it was cancelled, throttled, or had no memory
// here.
func mayBeObject(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && ctx.Err() == nil && !e.Throttled() && !errors.Is(err, appliance.ErrNoMemory)
}

// pageFailures counts the polls in a row that failed at a page, so that a page that keeps
// failing is read in parts.
type pageFailures struct {
	polls int  // in a row
	apart bool // a page was read in parts since the poll began
}

// atFault counts a failure, and reports whether an object is its reason: the page has failed
// often enough, while probe, a request without the object, succeeds. The first time it logs
// warning.
func (f *pageFailures) atFault(ctx context.Context, err error, probe func() error, log *slog.Logger, warning string) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	if !ok || e.Refused() || !mayBeObject(ctx, err) {
		return false
	}
	if !f.apart {
		f.polls++
	}
	if f.polls < unreadableAfter || probe() != nil {
		return false
	}
	if !f.apart {
		f.apart = true
		log.Warn(warning, "error", err)
	}
	return true
}

// ended records a successful poll. While pages have to be read in parts, the next poll
// does not wait for as many failures again.
func (f *pageFailures) ended() {
	if !f.apart {
		f.polls = 0
	}
	f.apart = false
}

// failedPolls counts, by object, the polls in a row in which it could not be read. An object is
// deleted when it could be read.
type failedPolls map[string]int

// maxFailedPolls bounds the number of objects counted.
const maxFailedPolls = 10_000

// giveUp counts a poll in which an object could not be read because of cause. It returns nil if
// the object becomes a dead letter: this failed in enough polls in a row, and readOther
// succeeds, which reads another object. Otherwise it returns the error of the poll, which does
// not wrap cause: the appliance answers other requests.
func (s *stream) giveUp(key, what string, cause error, readOther func() error) error {
	if len(s.objects) >= maxFailedPolls {
		clear(s.objects)
	}
	s.objects[key]++
	if polls := s.objects[key]; polls < unreadableAfter {
		return fmt.Errorf("read %s: %v; it is given up after %d such polls, of which this is number %d", what, cause, unreadableAfter, polls)
	}
	if err := readOther(); err != nil {
		return fmt.Errorf("read %s: %v; it is not given up, since no other was read: %w", what, cause, err)
	}
	s.log.Error("an object cannot be read; it becomes a dead letter, and the stream continues without it", "object", what, "error", cause)
	return nil
}

// onlyThat reports whether a follow-up continues without an object, because a request for it has
// failed often enough while readOther succeeds. It is called after each failure.
func (s *stream) onlyThat(ctx context.Context, key, what string, cause error, readOther func() error) bool {
	e, ok := errors.AsType[*appliance.Error](cause)
	if !ok || e.Refused() || isRefusal(e) || errors.Is(cause, errOff) || !mayBeObject(ctx, cause) {
		return false
	}
	return s.giveUp(key, what, cause, readOther) == nil
}
