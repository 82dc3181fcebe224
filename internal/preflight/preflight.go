// Package preflight tries whether a bridge can run with a configuration: it makes every
// part by the code of a start, tries the state, the servers of a cluster and every
// appliance, sink and ticket intake, and explains each answer. It changes nothing.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/pipeline"
)

// Options configure Check.
type Options struct {
	Version string
	// Timeout limits the trial of each appliance, sink and intake; it must be above 0.
	// A single unresponsive server or broker uses up at most half of it, so that the
	// others are tried.
	Timeout time.Duration
	// Now returns the time that clocks and certificates are compared with.
	Now func() time.Time
	// Rehearse tries what the sinks select on the newest detections of the appliances.
	Rehearse bool
	// Progress, if not nil, is called with the number of finished trials and of all
	// trials. It is never called concurrently.
	Progress func(done, all int)
}

// maxConcurrent limits the trials that run at once.
const maxConcurrent = 8

// configuration is the target of findings that concern no single part.
const configuration = "configuration"

// trial checks one target.
type trial struct {
	target string
	try    func(context.Context) []finding.Finding
}

// Check makes every part of a configuration as CheckSettings does, then tries the state,
// the servers of a cluster and every appliance, sink and ticket intake that could be made. It returns its
// findings in the order of the configuration.
//
// It connects as a running bridge does but changes nothing: it sends no events, creates
// no topics, streams or consumers, and only reads the state. It tests write access to
// tickets with a ticket that no detection has. Findings contain no secrets. When ctx is
// cancelled, the trials in progress fail.
func Check(ctx context.Context, config *configs.Config, o Options) []finding.Finding {
	settings := checkParts(ctx, config, o.Version)
	var r *rehearsal
	if o.Rehearse {
		r = newRehearsal(ctx, config)
	}
	trials := checkTrials(config, o, r)
	results := make([][]finding.Finding, len(trials))
	var running errgroup.Group
	running.SetLimit(maxConcurrent)
	var counting sync.Mutex
	done := 0
	for i, t := range trials {
		running.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, o.Timeout)
			defer cancel()
			results[i] = ofTarget(settings, t.target)
			if len(results[i]) == 0 || t.target == configuration {
				results[i] = append(results[i], finding.Of(t.target, t.try(ctx))...)
			}
			counting.Lock()
			defer counting.Unlock()
			if done++; o.Progress != nil {
				o.Progress(done, len(trials))
			}
			return nil
		})
	}
	_ = running.Wait() // trials return findings
	for i, t := range trials {
		results[i] = append(results[i], r.of(t.target)...)
	}
	found := finding.Of(configuration, append(checkSecrets(config), checkMember(config)...))
	found = append(found, ofTarget(settings, "tickets")...) // it is not tried
	return append(found, slices.Concat(results...)...)
}

// reachTimeout limits the trial of each appliance and sink by Reach.
const reachTimeout = 10 * time.Second

// Reach returns an error unless every appliance and every sink of a configuration can be reached
// from this machine, as Check tries.
func Reach(ctx context.Context, config *configs.Config) error {
	alone := *config
	alone.Cluster, alone.Tickets = nil, configs.Tickets{}
	var errs []error
	for _, f := range Check(ctx, &alone, Options{Timeout: reachTimeout, Now: time.Now}) {
		if f.Result == finding.Failed && f.Target != configuration {
			errs = append(errs, fmt.Errorf("%s: %s", f.Target, f.Detail))
		}
	}
	return errors.Join(errs...)
}

func checkTrials(config *configs.Config, o Options, r *rehearsal) []trial {
	all := []trial{{configuration, func(context.Context) []finding.Finding { return checkState(config, false) }}}
	if config.Cluster.Enabled() {
		all = append(all, trial{clusterTarget, func(ctx context.Context) []finding.Finding { return checkCluster(ctx, config.Cluster, o) }})
	}
	for _, a := range config.Appliances {
		all = append(all, trial{"appliance " + a.Name, func(ctx context.Context) []finding.Finding {
			return checkAppliance(ctx, a, config.Tickets.Enabled, o, r)
		}})
	}
	for _, s := range config.Sinks {
		all = append(all, trial{"sink " + s.Name, func(ctx context.Context) []finding.Finding {
			return checkSink(ctx, s, config, o)
		}})
	}
	if !config.Tickets.Enabled {
		return all
	}
	if n := config.Tickets.NATS; n.URL.Value() != "" {
		all = append(all, trial{pipeline.IntakeTarget(pipeline.NATSIntake), func(ctx context.Context) []finding.Finding { return checkNATSIntake(ctx, n, o) }})
	}
	if k := config.Tickets.Kafka; len(k.Brokers) > 0 {
		all = append(all, trial{pipeline.IntakeTarget(pipeline.KafkaIntake), func(ctx context.Context) []finding.Finding { return checkKafkaIntake(ctx, k, o) }})
	}
	return all
}

// ofTarget returns the findings of a target.
func ofTarget(found []finding.Finding, target string) (of []finding.Finding) {
	for _, f := range found {
		if f.Target == target {
			of = append(of, f)
		}
	}
	return of
}

// unusable returns the finding for a part that cannot be made.
func unusable(err error) []finding.Finding {
	return []finding.Finding{{
		Step: "settings", Result: finding.Failed, Detail: err.Error(), Advice: "correct the named key, or the file it refers to",
	}}
}
