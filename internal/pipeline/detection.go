package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/poller"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Bounds of the search for a detection. There is no index of the journal by detection; only
// the beginning of each event is read.
const (
	searchTime  = 3 * time.Second
	searchBytes = 1 << 30  // of events and dead letters that are looked at
	searchStep  = 16 << 20 // of them in one transaction

	maxVersions      = 100
	maxVersionBytes  = 1 << 20 // of their events; one may be larger
	maxSkips         = 1000    // reports of skipped events
	maxFoundCommands = 50
	searchedCommands = 10_000
)

func (p *operator) detection(ctx context.Context, r admin.DetectionRequest) (admin.Detection, error) {
	name, id := r.Appliance, r.ID
	found := admin.Detection{Appliance: name, ID: id}
	if _, err := p.appliance(name); err != nil {
		return found, err
	}
	seen, known, err := poller.SeenOf(ctx, p.store, name, id)
	if err != nil {
		return found, err
	}
	if known {
		found.Seen = &admin.SeenDetection{ModTime: seen.ModTime, Created: seen.Created, Fields: seen.Fields, Failed: seen.Failed}
	}
	s := detectionSearch{
		operator: p, appliance: name, id: id, left: searchBytes, deadline: time.Now().Add(searchTime),
		versions: make(map[uint64]transform.Event),
	}
	if found.WholeDeadLetters, err = s.deadLetters(ctx); err != nil {
		return found, err
	}
	if found.SearchedSince, found.WholeJournal, err = s.journal(ctx); err != nil {
		return found, err
	}
	if found.Versions, err = s.deliveries(ctx); err != nil {
		return found, err
	}
	if found.Commands, err = s.commands(ctx, seen.Fields); err != nil {
		return found, err
	}
	if !known && len(found.Versions) == 0 && len(found.Commands) == 0 {
		return found, fmt.Errorf("%w detection %d: the bridge has not seen it at appliance %s, or has forgotten it", admin.ErrUnknown, id, name)
	}
	return found, nil
}

// detectionSearch searches the state for one detection.
type detectionSearch struct {
	*operator
	appliance string
	id        int64

	left     int64 // bytes to look at
	deadline time.Time

	versions map[uint64]transform.Event // by their numbers in the journal
	bytes    int                        // of versions
	skips    []skip
}

// skip is a range of events that a sink did not receive.
type skip struct {
	sink        string
	first, last uint64
}

// over reports whether a bound of the search is reached.
func (s *detectionSearch) over() bool {
	return s.left <= 0 || !time.Now().Before(s.deadline) || len(s.versions) >= maxVersions || s.bytes >= maxVersionBytes
}

// next returns the search for one step.
func (s *detectionSearch) next(prefixes ...string) checkpoint.Search {
	by := checkpoint.Search{
		MaxBytes: min(s.left, searchStep), Found: checkpoint.Batch{MaxEvents: maxVersions, MaxBytes: maxVersionBytes},
	}
	for _, id := range prefixes {
		by.Prefixes = append(by.Prefixes, transform.Beginning(id))
	}
	return by
}

// prefix is the beginning of the IDs of the detection's events.
func (s *detectionSearch) prefix() string { return strconv.FormatInt(s.id, 10) + "-" }

func (s *detectionSearch) add(seq uint64, e transform.Event) {
	if e.Appliance != s.appliance || e.Stream() != transform.StreamDetections {
		return
	}
	if _, found := s.versions[seq]; !found {
		s.versions[seq] = e
		s.bytes += len(e.Structured())
	}
}

// deadLetters finds versions in the dead letters of the sinks. It reports whether it has
// searched them all.
func (s *detectionSearch) deadLetters(ctx context.Context) (whole bool, err error) {
	for _, sink := range s.config.Sinks {
		for after := ""; ; {
			if s.over() {
				return false, nil
			}
			step, err := s.store.SearchDead(ctx, checkpoint.SinkOwner(sink.Name), after, s.next(s.prefix()))
			if err != nil {
				return false, err
			}
			s.left -= step.Looked
			for _, l := range step.DeadLetters {
				seq, err := checkpoint.SeqOfDeadKey(l.Key)
				if err != nil {
					continue // it is not an event of the journal
				}
				if e, err := transform.Parse(l.Body); err == nil {
					s.add(seq, e)
				}
			}
			if after = step.Next; after == "" {
				break
			}
		}
	}
	return true, nil
}

// journal finds versions in the journal, and reports of skipped events. It returns when the
// oldest event that it has looked at was recorded, and whether it has looked at them all.
func (s *detectionSearch) journal(ctx context.Context) (since time.Time, whole bool, err error) {
	for before := uint64(0); ; {
		step, err := s.store.SearchJournal(ctx, before, s.next(s.prefix(), skippedPrefix))
		if err != nil {
			return since, false, err
		}
		s.left -= step.Looked
		for _, r := range step.Records {
			s.addSkip(r.Event)
			s.add(r.Seq, r.Event)
		}
		if before = step.First; !step.Recorded.IsZero() {
			since = step.Recorded
		}
		if step.Whole || before == 0 || s.over() {
			return since, step.Whole, nil
		}
	}
}

// skippedPrefix is the beginning of the IDs of reports of skipped events.
const skippedPrefix = "sink.skipped-"

// addSkip adds the range that e reports, if it does: its ID is sink.skipped-SINK-FIRST-LAST.
func (s *detectionSearch) addSkip(e transform.Event) {
	var data struct{ Skipped transform.Skipped }
	if !strings.HasPrefix(e.ID, skippedPrefix) || len(s.skips) >= maxSkips || json.Unmarshal(e.Data(), &data) != nil {
		return
	}
	k := skip{sink: data.Skipped.Sink}
	if _, err := fmt.Sscanf(strings.TrimPrefix(e.ID, skippedPrefix+k.sink), "-%d-%d", &k.first, &k.last); err == nil {
		s.skips = append(s.skips, k)
	}
}

// deliveries returns the versions, newest first, with their deliveries.
func (s *detectionSearch) deliveries(ctx context.Context) ([]admin.DetectionVersion, error) {
	seqs := slices.SortedFunc(maps.Keys(s.versions), func(a, b uint64) int { return cmp.Compare(b, a) })
	versions := make([]admin.DetectionVersion, len(seqs))
	stats, err := s.store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	for i, seq := range seqs {
		versions[i] = admin.DetectionVersion{
			Seq: seq, Event: s.versions[seq].Structured(), Journalled: seq >= stats.First, Sinks: []admin.DetectionDelivery{},
		}
	}
	for _, sink := range s.config.Sinks {
		if _, known := stats.Sinks[sink.Name]; !known {
			continue // the bridge has not run with it yet
		}
		all, err := s.store.Deliveries(ctx, sink.Name, seqs)
		if err != nil {
			return nil, err
		}
		selection, err := endpoint.Selection(sink)
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", sink.Name, err)
		}
		for i, seq := range seqs {
			of := admin.DetectionDelivery{Sink: sink.Name, Result: s.result(sink.Name, seq, all[i], selection)}
			if of.Result == admin.ResultDeadLetter {
				of.Key, of.Class, of.Reason = all[i].Dead.Key, all[i].Dead.Class, all[i].Dead.Reason
			}
			versions[i].Sinks = append(versions[i].Sinks, of)
		}
	}
	return versions, nil
}

// result returns the result of the delivery of a version to a sink.
func (s *detectionSearch) result(sink string, seq uint64, of checkpoint.Delivered, selection sinks.Selection) string {
	verdict, _ := selection.Decide(s.versions[seq]) // it holds even if match fails
	isSkipped := func(k skip) bool { return k.sink == sink && k.first <= seq && seq <= k.last }
	switch {
	case of.Queued:
		return admin.ResultQueued
	case of.Parked:
		return admin.ResultParked
	case of.Dead != nil:
		return admin.ResultDeadLetter
	case verdict == sinks.VerdictFilter:
		return admin.ResultFiltered
	case !of.Past:
		return admin.ResultPending
	case slices.ContainsFunc(s.skips, isSkipped):
		return admin.ResultSkipped
	}
	return admin.ResultDelivered
}

// commands returns the last commands that name the detection, or one of its tickets. fields
// is poller.Seen.Fields.
func (s *detectionSearch) commands(ctx context.Context, fields []byte) ([]admin.TicketCommand, error) {
	tickets := make(map[string]bool)
	addTicket := func(detection []byte) {
		var fields struct {
			TicketID json.RawMessage `json:"ticket_id"`
		}
		if json.Unmarshal(detection, &fields) == nil {
			if id := transform.Text(fields.TicketID); id != "" {
				tickets[id] = true
			}
		}
	}
	addTicket(fields)
	for _, e := range s.versions {
		var data struct {
			Detection json.RawMessage `json:"detection"`
		}
		if json.Unmarshal(e.Data(), &data) == nil {
			addTicket(data.Detection)
		}
	}
	last, err := s.store.LastCommands(ctx, s.appliance, searchedCommands, maxFoundCommands, func(c checkpoint.Command) bool {
		var command commands.Command
		return tickets[c.Subject] || json.Unmarshal(c.Body, &command) == nil && command.Detection() == s.id
	})
	if err != nil {
		return nil, err
	}
	all := []admin.TicketCommand{}
	for _, c := range last {
		all = append(all, admin.NewTicketCommand(c))
	}
	return all, nil
}
