package bridge

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"ndrbridge/configs"
	"ndrbridge/preflight"
)

// CheckOptions say how Check tries.
type CheckOptions struct {
	Version string
	// Timeout bounds the trial of each appliance, sink and intake; above 0. A silent
	// appliance, server or broker uses up half of it at most, so that others are tried.
	Timeout time.Duration
	// Now is the time that clocks and certificates are held against.
	Now func() time.Time
	// Progress, where set, is told how many of all trials are done. It is called by
	// one goroutine at a time.
	Progress func(done, all int)
}

// together is how many trials run at once.
const together = 8

// configuration is the target of what is about no part alone.
const configuration = "configuration"

// trial is one thing to try.
type trial struct {
	target string
	try    func(context.Context) []preflight.Finding
}

// Check makes every part of a configuration as CheckSettings does, and tries the state,
// every appliance, every sink and every intake for tickets that can be made. It returns
// what it found, in the order of the configuration. It uses what a running bridge uses,
// and changes nothing: it sends no event, makes no topic, stream or consumer, and only
// reads the state. Whether tickets can be written it tries with one that no detection
// has. No finding holds a secret.
// When ctx ends, what is being tried has failed.
func Check(ctx context.Context, config *configs.Config, o CheckOptions) []preflight.Finding {
	settings := checkParts(ctx, config, o.Version)
	trials := checkTrials(config, keptIdentities(ctx, config), o)
	results := make([][]preflight.Finding, len(trials))
	var running sync.WaitGroup
	var counting sync.Mutex
	done := 0
	space := make(chan struct{}, together)
	for i, t := range trials {
		running.Go(func() {
			space <- struct{}{}
			defer func() { <-space }()
			ctx, cancel := context.WithTimeout(ctx, o.Timeout)
			defer cancel()
			results[i] = ofTarget(settings, t.target)
			if len(results[i]) == 0 || t.target == configuration {
				results[i] = append(results[i], preflight.Of(t.target, t.try(ctx))...)
			}
			counting.Lock()
			defer counting.Unlock()
			if done++; o.Progress != nil {
				o.Progress(done, len(trials))
			}
		})
	}
	running.Wait()
	found := preflight.Of(configuration, checkSecretFiles(config))
	for _, target := range []string{"tracing", "tickets"} { // nothing of them is tried
		found = append(found, ofTarget(settings, target)...)
	}
	for _, result := range results {
		found = append(found, result...)
	}
	return found
}

func checkTrials(config *configs.Config, kept map[string]identityPosition, o CheckOptions) []trial {
	all := []trial{{configuration, func(context.Context) []preflight.Finding { return checkState(config, false) }}}
	for _, a := range config.Appliances {
		all = append(all, trial{"appliance " + a.Name, func(ctx context.Context) []preflight.Finding {
			if of, ok := kept[a.Name]; ok {
				return checkAppliance(ctx, a, &of, config.Tickets.Enabled, o)
			}
			return checkAppliance(ctx, a, nil, config.Tickets.Enabled, o)
		}})
	}
	for _, s := range config.Sinks {
		all = append(all, trial{"sink " + s.Name, func(ctx context.Context) []preflight.Finding {
			return checkSink(ctx, s, config, o)
		}})
	}
	if !config.Tickets.Enabled {
		return all
	}
	if n := config.Tickets.NATS; n.URL.Value() != "" {
		all = append(all, trial{intakeTarget(natsIntake), func(ctx context.Context) []preflight.Finding { return checkNATSIntake(ctx, n, o) }})
	}
	if k := config.Tickets.Kafka; len(k.Brokers) > 0 {
		all = append(all, trial{intakeTarget(kafkaIntake), func(ctx context.Context) []preflight.Finding { return checkKafkaIntake(ctx, k, o) }})
	}
	return all
}

// ofTarget returns the findings of a target.
func ofTarget(found []preflight.Finding, target string) (of []preflight.Finding) {
	for _, f := range found {
		if f.Target == target {
			of = append(of, f)
		}
	}
	return of
}

// unusable is the finding of a part that cannot be made.
func unusable(err error) []preflight.Finding {
	return []preflight.Finding{{
		Step: "settings", Result: preflight.Failed, Detail: err.Error(), Advice: "correct the key that is named, or the file that it names",
	}}
}

// checkSecretFiles tells files with secrets that everybody may read.
func checkSecretFiles(config *configs.Config) []preflight.Finding {
	const others = 0o004
	var found []preflight.Finding
	for _, f := range config.SecretFiles() {
		if info, err := os.Stat(f.Path); err == nil && info.Mode().Perm()&others != 0 {
			found = append(found, preflight.Finding{
				Step: f.Key, Result: preflight.Warning, Detail: fmt.Sprintf("everybody on this machine may read %s", f.Path),
				Advice: "chmod o= " + f.Path,
			})
		}
	}
	return found
}
