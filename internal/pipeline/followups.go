package pipeline

import (
	"context"
	"strings"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/commands"
	"ndrbridge/poller"
	"ndrbridge/transform"
	"ndrbridge/transform/match"
)

// followUp is a part of an appliance's configuration that is read beside the streams: what the
// appliance knows about detections apart from their versions, or about itself.
type followUp struct {
	stream   string
	interval configs.Duration
	open     func(s *streams) poller.Source // in whose client's priority it reads is its own choice
}

// followUpsOf returns the parts that are configured, in the order in which they are shown.
func followUpsOf(a configs.Appliance) []followUp {
	var all []followUp
	if r := a.Detections.Reconcile; a.Detections.Enabled && len(r.Report) > 0 {
		// A poll asks the appliance only if a look is due.
		interval := min(r.Every, configs.Duration(time.Minute))
		all = append(all, followUp{poller.StreamLifecycle, interval, (*streams).lifecycle})
	}
	if a.Context.Devices {
		// Polls that find nothing to do make no requests.
		const interval = configs.Duration(5 * time.Second)
		all = append(all, followUp{poller.StreamContext, interval, func(s *streams) poller.Source { return s.contexts }})
	}
	if n := a.Notes; a.Detections.Enabled && n.In {
		all = append(all, followUp{poller.StreamNotes, n.Interval, func(s *streams) poller.Source {
			return poller.NewNotes(s.client, s.store, s.options(poller.StreamNotes, configs.Start{}, 0), time.Duration(a.Detections.ForgetAfter))
		}})
	}
	if e := a.Evidence; a.Detections.Enabled && e.Match != "" {
		// Polls that find nothing to do make no requests.
		const interval = configs.Duration(10 * time.Second)
		all = append(all, followUp{poller.StreamEvidence, interval, (*streams).evidence})
	}
	// add adds a part without options of its own.
	add := func(enabled bool, stream string, interval configs.Duration, open func(*appliance.Client, poller.FollowUpStore, poller.StreamOptions) poller.Source) {
		if enabled {
			all = append(all, followUp{stream, interval, func(s *streams) poller.Source {
				return open(s.client, s.store, s.options(stream, configs.Start{}, 0))
			}})
		}
	}
	if r := a.Rules; r.Enabled {
		all = append(all, followUp{poller.StreamRules, r.Interval, func(s *streams) poller.Source {
			return poller.NewRules(s.client, s.store, s.options(poller.StreamRules, configs.Start{}, 0), func(ctx context.Context, description string) (string, error) {
				return commands.RuleAskedBy(ctx, s.store, a.Name, description)
			})
		}})
	}
	b := a.BlindSpots
	add(b.ExclusionIntervals, poller.StreamIntervals, b.Interval, poller.NewExclusionIntervals)
	add(b.Alerts, poller.StreamAlerts, b.Interval, poller.NewDisabledAlerts)
	add(b.RecordIngest, poller.StreamIngest, b.Interval, poller.NewRecordIngest)
	add(b.TicketTracking, poller.StreamTracking, b.Interval, poller.NewTicketTracking)
	return all
}

// newContexts returns the contexts of an appliance, or nil if they are not configured.
func (s *streams) newContexts() *poller.Contexts {
	x := s.appliance.Context
	if !x.Devices {
		return nil
	}
	return poller.NewContexts(s.client.Aside(), s.store, poller.ContextOptions{
		StreamOptions: s.options(poller.StreamContext, s.appliance.Detections.Start, s.appliance.Detections.PageSize),
		Tags:          x.Tags, Groups: x.Groups, Software: x.Software,
		Every: time.Duration(x.Every), Wait: time.Duration(x.Wait), ForgetAfter: time.Duration(s.appliance.Detections.ForgetAfter),
	})
}

// evidence returns the source of evidence.
func (s *streams) evidence() poller.Source {
	e := s.appliance.Evidence
	// The configuration has compiled it already.
	selects, err := match.Compile(e.Match)
	matches := selects.Matches
	if err != nil {
		matches = func(transform.Event) (bool, error) { return false, err }
	}
	return poller.NewEvidence(s.client, s.store, poller.EvidenceOptions{
		StreamOptions: s.options(poller.StreamEvidence, configs.Start{}, 0), Matches: matches, Types: e.Types,
		Before: time.Duration(e.Before), After: time.Duration(e.After), MaxRecords: e.MaxRecords, PerHour: e.PerHour,
		Related: e.Related, ForgetAfter: time.Duration(s.appliance.Detections.ForgetAfter),
	})
}

// followUps returns the sources of the parts. Their requests use a quarter of the rate limit, and
// give way to those of the streams. Those about detections wait while these are catching up.
func (s *streams) followUps() []source {
	beside := *s
	beside.client = s.client.Aside()
	var all []source
	for _, part := range followUpsOf(s.appliance) {
		// What is about detections costs as much as they do. The appliance's own state is soon read,
		// and a match may wait for a context.
		yields := strings.HasPrefix(part.stream, transform.StreamDetections+"/") &&
			s.appliance.Detections.Enabled && !(part.stream == poller.StreamContext && s.appliance.Context.Wait > 0)
		all = append(all, source{interval: part.interval, open: func() poller.Source { return part.open(&beside) }, optional: true, yields: yields})
	}
	return all
}
