package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// newestTried is the number of the newest detections of each appliance that are rehearsed.
const newestTried = 100

// maxCounts is the number of requests that count what the first start reads; each counts up
// to idsPerCount detections.
const (
	maxCounts   = 3
	idsPerCount = 1000
)

// rehearsal counts what the sinks select of the newest detections of all appliances. Its
// methods are safe for concurrent use. A nil rehearsal has no findings.
type rehearsal struct {
	// stored reports which appliances' detections have a position in the state; nil: not known.
	stored map[string]bool

	mu    sync.Mutex
	tried int
	since time.Time // the earliest time from which the first start reads an appliance
	more  bool      // it may read more than was counted
	sinks map[string]*rehearsed
}

// rehearsed is the rehearsal of a sink.
type rehearsed struct {
	selects  sinks.Selection
	others   bool // it selects events of other streams
	matching int  // the detections that it selects
	failures int  // of match
	failure  error
	first    int // the events of the first start, estimated
}

// ofOtherStreams matches expressions about the content of events that no detection has.
var ofOtherStreams = regexp.MustCompile(`\b(audit|record)\s*[.\[]`)

func newRehearsal(ctx context.Context, config *configs.Config) *rehearsal {
	r := &rehearsal{stored: positions(ctx, config), sinks: make(map[string]*rehearsed)}
	for _, s := range config.Sinks {
		selects, err := endpoint.Selection(s)
		sure, _, errSamples := samples(s, config)
		if err != nil || errSamples != nil {
			continue // that the sink is unusable is reported when it is tried
		}
		others := ofOtherStreams.MatchString(s.Match) ||
			slices.ContainsFunc(sure, func(e transform.Event) bool { return !strings.HasPrefix(e.Type, transform.TypePrefix+"detection.") })
		r.sinks["sink "+s.Name] = &rehearsed{selects: selects, others: others}
	}
	return r
}

// positions reports which appliances' detections have a position in the state. It returns nil
// if the state cannot be read.
func positions(ctx context.Context, config *configs.Config) map[string]bool {
	stored := make(map[string]bool)
	if config.Cluster.Enabled() { // its NATS servers have the state
		return nil
	}
	if _, err := os.Stat(config.State); errors.Is(err, fs.ErrNotExist) {
		return stored
	}
	store, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true, Quick: true})
	if err != nil {
		return nil
	}
	defer store.Close()
	for _, a := range config.Appliances {
		position, err := store.Position(ctx, checkpoint.Source{Appliance: a.Name, Stream: transform.StreamDetections})
		if err != nil {
			return nil
		}
		stored[a.Name] = position != nil
	}
	return stored
}

// firstStart is what the first start reads of an appliance's detections.
type firstStart struct {
	since  time.Time
	events int
	more   bool // there may be more than events
}

// rehearse reads the newest detections and adds them to r, with what the first start reads.
func (t *applianceTrial) rehearse(ctx context.Context, r *rehearsal) {
	const step = "newest detections"
	filter := endpoint.Filter(t.config.Detections.Filter)
	search := appliance.Search{ModTime: 1, Limit: newestTried, Newest: true, Filter: filter}
	var page appliance.Page
	err := t.client.SearchDetections(ctx, search, &page)
	for errors.Is(err, appliance.ErrTooLarge) && search.Limit > 1 {
		search.Limit /= 10
		err = t.client.SearchDetections(ctx, search, &page)
	}
	if err != nil {
		if !t.outOfTime(ctx, step) {
			t.add(finding.Warning, step, "no match was rehearsed: "+err.Error(), "check again; if the error persists, see the appliance's own log")
		}
		return
	}
	var newest []transform.Detection
	for _, o := range page.Objects {
		if d, err := transform.ParseDetection(o.Raw, o.Repaired); err == nil { // others become dead letters
			newest = append(newest, d)
		}
	}
	if len(newest) == 0 {
		t.add(finding.Remark, step, "there are none to try a match on", "")
	}
	first := t.firstStart(ctx, r, newest, page.Date, filter)
	r.add(ctx, transform.Encoder{Appliance: t.config.Name}, newest, first, t.now())
}

// firstStart adds a finding about where reading detections begins, and returns what the first
// start reads, of which newest are the newest.
func (t *applianceTrial) firstStart(ctx context.Context, r *rehearsal, newest []transform.Detection, now time.Time, filter json.RawMessage) (f firstStart) {
	const step = "first start"
	start := t.config.Detections.Start
	switch {
	case r.stored == nil:
		t.add(finding.Untried, step, "the state was not read: if it has a position, reading detections continues there", "")
		return firstStart{}
	case r.stored[t.config.Name]:
		t.add(finding.OK, step, "reading detections continues from its position in the state", "")
		return firstStart{}
	case start.IsNow():
		t.add(finding.OK, step, "reading detections begins now", "")
		return firstStart{}
	}
	f.since = time.UnixMilli(max(1, start.At(now).UnixMilli())).UTC()
	t.add(finding.OK, step, fmt.Sprintf("detections are read since %s (start is %s)", sinceText(f.since), start), "")
	if len(newest) == 0 {
		return f
	}
	older := func(d transform.Detection) bool { return d.ModTime < f.since.UnixMilli() }
	if i := slices.IndexFunc(newest, older); i >= 0 {
		f.events = i // all of them are among the newest
		return f
	}
	for range maxCounts {
		ids, err := t.client.SearchDetectionIDs(ctx, appliance.Search{
			ModTime: f.since.UnixMilli(), Limit: min(idsPerCount, t.config.Detections.PageSize), Offset: f.events, Filter: filter,
		})
		if err != nil {
			t.add(finding.Untried, step, "the detections since then were not counted: "+err.Error(), "")
			return firstStart{f.since, max(f.events, len(newest)), true}
		}
		if len(ids) == 0 {
			return f
		}
		f.events += len(ids)
	}
	f.more = true
	return f
}

// add tries the match of every sink on the newest detections of an appliance, the newest first.
func (r *rehearsal) add(ctx context.Context, e transform.Encoder, newest []transform.Detection, first firstStart, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first.events > 0 && (r.since.IsZero() || first.since.Before(r.since)) {
		r.since = first.since
	}
	r.more = r.more || first.more
	r.tried += len(newest)
	read := 0 // by the first start
	selected := make(map[*rehearsed]int)
	for _, d := range newest {
		isRead := first.events > 0 && d.ModTime >= first.since.UnixMilli()
		if isRead {
			read++
		}
		// What it is at the first start, and what it can be later: a version with other changes.
		seen, err := e.Detection(d, transform.Observation{Created: isRead && d.Began >= first.since.UnixMilli(), Recorded: now})
		created, errCreated := e.Detection(d, transform.Observation{Created: true, Recorded: now})
		updated, errUpdated := e.Detection(d, transform.Observation{Before: []byte("{}"), Recorded: now})
		if err := errors.Join(err, errCreated, errUpdated); err != nil || ctx.Err() != nil {
			continue
		}
		for _, s := range r.sinks {
			if verdict, _ := s.selects.Decide(seen); isRead && verdict == sinks.VerdictSend {
				selected[s]++
			}
			s.try(created, updated)
		}
	}
	for s, n := range selected {
		s.first += n * max(first.events, read) / read
	}
}

// try counts a detection, of which the events are possible versions.
func (s *rehearsed) try(versions ...transform.Event) {
	matches := false
	var failure error
	for _, e := range versions {
		verdict, err := s.selects.Decide(e)
		matches = matches || verdict == sinks.VerdictSend
		failure = cmp.Or(failure, err)
	}
	if matches {
		s.matching++
	}
	if failure != nil {
		s.failures++
		s.failure = cmp.Or(s.failure, failure)
	}
}

// of returns the findings about a target, if it is a sink.
func (r *rehearsal) of(target string) (found []finding.Finding) {
	if r == nil || r.sinks[target] == nil || r.tried == 0 {
		return nil
	}
	s := r.sinks[target]
	const step = "match"
	add := func(step string, result finding.Result, detail, advice string) {
		found = append(found, finding.Finding{Target: target, Step: step, Result: result, Detail: detail, Advice: advice})
	}
	newest := fmt.Sprintf("of the newest %d detections", r.tried)
	switch {
	case s.failures > 0:
		add(step, finding.Warning, fmt.Sprintf("%d %s, but it fails for %d, and on_error decides: %v", s.matching, newest, s.failures, s.failure), "correct match")
	case s.matching > 0:
		add(step, finding.OK, fmt.Sprintf("%d %s", s.matching, newest), "")
	case s.others:
		add(step, finding.Remark, "0 "+newest+": it depends on another stream, which is not rehearsed", "")
	default:
		add(step, finding.Warning, "0 "+newest+": never matches", "compare match with a detection of the appliance, unless it selects rare ones")
	}
	if s.first == 0 {
		return found
	}
	about := "about"
	if r.more {
		about = "at least"
	}
	add("first start", finding.Remark, fmt.Sprintf("%s %d events of detections since %s", about, s.first, sinceText(r.since)), "")
	return found
}

func sinceText(t time.Time) string {
	if t.UnixMilli() <= 1 {
		return "the beginning"
	}
	return t.Format(time.RFC3339)
}
