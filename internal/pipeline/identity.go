package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
)

// identityStream is the stream name under which the state keeps what an appliance reports
// about itself. No polled stream has this name.
const identityStream = "identity"

// system keeps what an appliance reports about itself. It looks for evidence that another appliance
// answers under the name of a known one. Appliances have no system id, so it takes evidence that
// upgrading, renaming or readdressing one machine does not produce: two of three facts that changed
// at once, or a detection id that another detection had before. What it found is in the state until
// an operator drops it, and is logged only once. Its methods are safe for concurrent use.
type system struct {
	client *appliance.Client
	store  *checkpoint.Store
	source checkpoint.Source
	log    *slog.Logger
	back   chan struct{} // signals that the appliance became reachable

	firmware atomic.Value // a string; nil until known
	mu       sync.Mutex   // held while changing the state
}

// Messages about an appliance that changed, and what to do about it.
const (
	replacedMessage = "another appliance seems to answer under this name: its ids can collide with those of known detections, " +
		"and its data from before the streams' positions is not read"
	replacedAdvice = "give it a name of its own, or forget the previous one with ndrbridge state forget --appliance"
	renamedMessage = "the appliance has a new name or address; its streams continue"
	renamedAdvice  = "if another machine took its place, see ndrbridge state forget --appliance"
)

// identity is the stored identity of an appliance.
type identity struct {
	appliance.System                 // the last report of the appliance
	Replaced         *admin.Replaced `json:"replaced,omitempty"` // nil if nothing suggests that it was replaced
}

func identitySource(appliance string) checkpoint.Source {
	return checkpoint.Source{Appliance: appliance, Stream: identityStream}
}

// newSystem returns the system of an appliance. Its requests have background priority.
func newSystem(name string, client *appliance.Client, store *checkpoint.Store, log *slog.Logger) *system {
	return &system{client: client.Background(), store: store, source: identitySource(name), log: log, back: make(chan struct{}, 1)}
}

// systemEvery is how often run asks while the appliance stays reachable.
const systemEvery = time.Hour

// version returns the firmware version, or "" until it is known.
func (d *system) version() string {
	version, _ := d.firmware.Load().(string)
	return version
}

// reached notes that the appliance became reachable, for the first time or again: it
// may have been upgraded in between. It never blocks.
func (d *system) reached() {
	select {
	case d.back <- struct{}{}:
	default: // a signal is already pending
	}
}

// run asks the appliance when it becomes reachable and every systemEvery after, until ctx is
// done. Errors are only logged: nothing depends on the answers.
func (d *system) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.back:
		case <-time.After(systemEvery):
		}
		version, err := d.client.Firmware(ctx)
		if err != nil {
			d.log.Debug("failed to read the firmware version; trying again later", "error", err)
			continue
		}
		is, err := d.client.System(ctx)
		if err == nil {
			err = d.observe(ctx, is)
		}
		if err != nil && ctx.Err() == nil {
			d.log.Debug("failed to read or store the appliance's identity; trying again later", "error", err)
		}
		d.firmware.Store(version.String()) // last: a known version implies that all requests were made
	}
}

// observe compares the appliance's report about itself with earlier ones.
func (d *system) observe(ctx context.Context, is appliance.System) error {
	var changed []string
	replaced, err := d.change(ctx, func(p *identity) (reason string) {
		changed = p.merge(&is)
		if p.System = is; len(changed) > 1 {
			reason = strings.Join(changed, ", ")
		}
		return reason
	})
	if err == nil && !replaced && len(changed) == 1 {
		d.log.Warn(renamedMessage+"; "+renamedAdvice, "changed", changed[0])
	}
	return err
}

// replaced reports whether something suggests that the appliance was replaced. It asks the
// appliance, unless that fails: keys may not be allowed to.
func (d *system) replaced(ctx context.Context) (bool, error) {
	if is, err := d.client.System(ctx); err == nil {
		if err := d.observe(ctx, is); err != nil {
			return false, err
		}
	}
	_, p, err := storedIdentity(ctx, d.store, d.source)
	return p.Replaced != nil, err
}

// reused records that a detection id was reused.
func (d *system) reused(ctx context.Context, r poller.ReusedID) error {
	_, err := d.change(ctx, func(*identity) string {
		return fmt.Sprintf("detection %d was created %s, and another one with this id %s",
			r.ID, r.Is.Format(time.RFC3339), r.Was.Format(time.RFC3339))
	})
	return err
}

// change applies f to the stored identity and commits the result if it differs. If f
// returns a reason to believe that the appliance was replaced and none is stored yet,
// the reason is stored and logged. replaced reports whether a reason is stored.
func (d *system) change(ctx context.Context, f func(*identity) (reason string)) (replaced bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, p, err := storedIdentity(ctx, d.store, d.source)
	if err != nil {
		return false, err
	}
	if reason := f(&p); reason != "" && p.Replaced == nil {
		p.Replaced, replaced = &admin.Replaced{Since: time.Now().UTC(), Reason: reason}, true
	}
	after, err := json.Marshal(p)
	if err != nil || bytes.Equal(before, after) {
		return p.Replaced != nil, err
	}
	if err := d.store.Commit(ctx, checkpoint.Commit{Source: d.source, Expect: before, Position: after}); err != nil {
		return false, err
	}
	if replaced {
		d.log.Error(replacedMessage+"; "+replacedAdvice, "reason", p.Replaced.Reason)
	}
	return p.Replaced != nil, nil
}

// forgetIdentity drops the stored identity of an appliance and the finding that it was replaced.
// It reports whether there was one.
func forgetIdentity(ctx context.Context, store *checkpoint.Store, appliance string) (found bool, err error) {
	committed, _, err := storedIdentity(ctx, store, identitySource(appliance))
	if err != nil || committed == nil {
		return false, err
	}
	return true, store.Commit(ctx, checkpoint.Commit{Source: identitySource(appliance), Expect: committed, Position: []byte("{}")})
}

// storedIdentity returns the stored identity and its encoding, which is nil if there is none.
func storedIdentity(ctx context.Context, store *checkpoint.Store, source checkpoint.Source) (committed []byte, p identity, err error) {
	if committed, err = store.Position(ctx, source); err != nil || committed == nil {
		return nil, p, err
	}
	if err := json.Unmarshal(committed, &p); err != nil {
		return nil, p, fmt.Errorf("read the stored identity of %s: %w", source, err)
	}
	return committed, p, nil
}

// facts returns the facts of an appliance's description of itself. The several names of its host
// count as one.
func facts(s *appliance.System) map[string][]*string {
	return map[string][]*string{
		"hostname":    {&s.Hostname, &s.ExternalHostname, &s.DisplayHost},
		"mgmt_ipaddr": {&s.MgmtIPAddr},
		"platform":    {&s.Platform},
	}
}

// merge describes the facts in which a description differs from the known one, and adds to it
// those that it lacks: an answer of an appliance that boots, or of a proxy, may lack any of them.
// A fact that either of them lacks does not differ.
func (k identity) merge(is *appliance.System) (differences []string) {
	known := facts(&k.System)
	for name, now := range facts(is) {
		compared := false
		for i, value := range now {
			was := *known[name][i]
			if was != "" && *value != "" && !compared {
				if compared = true; was != *value {
					differences = append(differences, fmt.Sprintf("%s was %s and is %s", name, was, *value))
				}
			}
			*value = cmp.Or(*value, was)
		}
	}
	slices.Sort(differences)
	return differences
}
