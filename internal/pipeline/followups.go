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

// followUpsOf returns what is configured to be read beside the streams: what the appliance knows about
// detections apart from their versions, or about itself. Its requests use a quarter of the rate limit,
// and give way to those of the streams. Sources about detections wait while these are catching up.
func followUpsOf(config *configs.Config, a configs.Appliance) []source {
	var all []source
	add := func(enabled bool, stream string, interval configs.Duration, open func(*streams) poller.Source) {
		if !enabled {
			return
		}
		// What is about detections costs as much as they do. The appliance's own state is soon read,
		// and a match may wait for a context.
		yields := strings.HasPrefix(stream, transform.StreamDetections+"/") &&
			a.Detections.Enabled && !(stream == poller.StreamContext && a.Context.Wait > 0)
		all = append(all, source{stream: stream, interval: interval, yields: yields, open: func(s *streams) poller.Source {
			beside := *s
			beside.client = s.client.Aside()
			return open(&beside)
		}})
	}
	const second = configs.Duration(time.Second) // most polls find that nothing is due, and make no request
	d := a.Detections
	add(d.Enabled && len(d.Reconcile.Report) > 0, poller.StreamLifecycle, min(d.Reconcile.Every, 60*second), (*streams).lifecycle)
	add(a.Context.Devices, poller.StreamContext, 5*second, func(s *streams) poller.Source { return s.contexts })
	add(d.Enabled && a.Notes.In, poller.StreamNotes, a.Notes.Interval, func(s *streams) poller.Source {
		return poller.NewNotes(s.client, s.store, s.optionsBeside(poller.StreamNotes), time.Duration(d.ForgetAfter))
	})
	add(d.Enabled && a.Evidence.Match != "", poller.StreamEvidence, 10*second, (*streams).evidence)
	add(a.Rules.Enabled, poller.StreamRules, a.Rules.Interval, func(s *streams) poller.Source {
		return poller.NewRules(s.client, s.store, s.optionsBeside(poller.StreamRules), func(ctx context.Context, description string) (string, error) {
			return commands.RuleAskedBy(ctx, s.store, a.Name, description)
		})
	})
	b := a.BlindSpots
	spots := func(enabled bool, stream string, open func(*appliance.Client, poller.FollowUpStore, poller.StreamOptions) poller.Source) {
		add(enabled, stream, b.Interval, func(s *streams) poller.Source { return open(s.client, s.store, s.optionsBeside(stream)) })
	}
	spots(b.ExclusionIntervals, poller.StreamIntervals, poller.NewExclusionIntervals)
	spots(b.Alerts, poller.StreamAlerts, poller.NewDisabledAlerts)
	spots(b.RecordIngest, poller.StreamIngest, poller.NewRecordIngest)
	spots(config.Tickets.Enabled, poller.StreamTracking, poller.NewTicketTracking)
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
		StreamOptions: s.optionsBeside(poller.StreamEvidence), Matches: matches, Types: e.Types,
		Before: time.Duration(e.Before), After: time.Duration(e.After), MaxRecords: e.MaxRecords, PerHour: e.PerHour,
		Related: e.Related, ForgetAfter: time.Duration(s.appliance.Detections.ForgetAfter),
	})
}

// optionsBeside returns the options of a source that is read beside the streams.
func (s *streams) optionsBeside(stream string) poller.StreamOptions {
	return s.options(stream, configs.Start{}, 0)
}
