package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/finding"
	"ndrbridge/poller"
)

// identityStream is the stream name under which the state keeps what an appliance reports
// about itself. No polled stream has this name.
const identityStream = "identity"

// identityDetector looks for evidence that another appliance answers under the name of a
// known one. Appliances have no system id, so it takes evidence that upgrading, renaming or
// readdressing one machine does not produce: two of three facts that changed at once, or a
// detection id that another detection had before. It keeps what it found in the state until
// an operator drops it, and logs it only once. Its methods are safe for concurrent use.
type identityDetector struct {
	store  *checkpoint.Store
	source checkpoint.Source
	log    *slog.Logger

	mu sync.Mutex // held while changing the state
}

// Messages about an appliance that changed, and what to do about it.
const (
	replacedMessage = "another appliance seems to answer under this name: its ids can collide with those of known detections, " +
		"and its data from before the streams' positions is not read"
	replacedAdvice = "give it a name of its own, or forget the previous one with ndrbridge state forget --appliance"
	renamedMessage = "the appliance has a new name or address; its streams continue"
	renamedAdvice  = "if another machine took its place, see ndrbridge state forget --appliance"
)

// Identity is what the state knows of an appliance's identity.
type Identity struct {
	appliance.System                 // what the appliance reported last
	Replaced         *admin.Replaced `json:"replaced,omitempty"` // nil if nothing suggests that it was replaced
}

func identitySource(appliance string) checkpoint.Source {
	return checkpoint.Source{Appliance: appliance, Stream: identityStream}
}

// newIdentityDetector returns the detector of an appliance.
func newIdentityDetector(appliance string, store *checkpoint.Store, log *slog.Logger) *identityDetector {
	return &identityDetector{store: store, source: identitySource(appliance), log: log}
}

// observe compares what the appliance reports about itself with what it reported
// before.
func (d *identityDetector) observe(ctx context.Context, is appliance.System) error {
	var changed []string
	replaced, err := d.change(ctx, func(p *Identity) (reason string) {
		changed = p.differences(is)
		if p.System = filled(is, p.System); len(changed) > 1 {
			reason = strings.Join(changed, ", ")
		}
		return reason
	})
	if err == nil && !replaced && len(changed) == 1 {
		d.log.Warn(renamedMessage+"; "+renamedAdvice, "changed", changed[0])
	}
	return err
}

// reused records that a detection id was reused.
func (d *identityDetector) reused(ctx context.Context, r poller.ReusedID) error {
	_, err := d.change(ctx, func(*Identity) string {
		return fmt.Sprintf("detection %d was created %s, and another one with this id %s",
			r.ID, r.Is.Format(time.RFC3339), r.Was.Format(time.RFC3339))
	})
	return err
}

// change applies f to the stored identity and commits the result if it differs. If f
// returns a reason to believe that the appliance was replaced and none is stored yet,
// the reason is stored and logged. replaced reports whether a reason is stored.
func (d *identityDetector) change(ctx context.Context, f func(*Identity) (reason string)) (replaced bool, err error) {
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

// ReadIdentity returns the stored identity of an appliance, and whether there is one.
func ReadIdentity(ctx context.Context, store *checkpoint.Store, appliance string) (k Identity, found bool, err error) {
	committed, k, err := storedIdentity(ctx, store, identitySource(appliance))
	return k, committed != nil, err
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
func storedIdentity(ctx context.Context, store *checkpoint.Store, source checkpoint.Source) (committed []byte, p Identity, err error) {
	if committed, err = store.Position(ctx, source); err != nil || committed == nil {
		return nil, p, err
	}
	if err := json.Unmarshal(committed, &p); err != nil {
		return nil, p, fmt.Errorf("read the stored identity of %s: %w", source, err)
	}
	return committed, p, nil
}

// differences describes the facts in which an appliance's description of itself differs
// from the known one. A fact that either of them lacks is skipped.
func (k Identity) differences(is appliance.System) []string {
	was := k.System
	wasName, isName := commonName(was, is)
	var all []string
	for _, fact := range []struct{ name, was, is string }{
		{"hostname", wasName, isName},
		{"mgmt_ipaddr", was.MgmtIPAddr, is.MgmtIPAddr},
		{"platform", was.Platform, is.Platform},
	} {
		if fact.was != "" && fact.is != "" && fact.was != fact.is {
			all = append(all, fmt.Sprintf("%s was %s and is %s", fact.name, fact.was, fact.is))
		}
	}
	return all
}

// Check compares the identity with what the appliance reports about itself, as a running
// bridge does. It returns no findings for an appliance that does not describe itself.
func (k Identity) Check(ctx context.Context, client *appliance.Client) []finding.Finding {
	replaced := func(reason string) []finding.Finding {
		return []finding.Finding{{Step: "identity", Result: finding.Warning, Detail: replacedMessage + ": " + reason, Advice: replacedAdvice}}
	}
	if k.Replaced != nil {
		return replaced(k.Replaced.Reason)
	}
	is, err := client.System(ctx)
	if err != nil {
		return nil
	}
	switch changed := k.differences(is); len(changed) {
	case 0:
		return nil
	case 1:
		return []finding.Finding{{Step: "identity", Result: finding.Remark, Detail: renamedMessage + ": " + changed[0], Advice: renamedAdvice}}
	default:
		return replaced(strings.Join(changed, ", "))
	}
}

// filled returns is with the facts that it lacks taken from was. An answer of an
// appliance that boots, or of a proxy, may lack any of them.
func filled(is, was appliance.System) appliance.System {
	return appliance.System{
		DisplayHost:      cmp.Or(is.DisplayHost, was.DisplayHost),
		ExternalHostname: cmp.Or(is.ExternalHostname, was.ExternalHostname),
		Hostname:         cmp.Or(is.Hostname, was.Hostname),
		MgmtIPAddr:       cmp.Or(is.MgmtIPAddr, was.MgmtIPAddr),
		Platform:         cmp.Or(is.Platform, was.Platform),
	}
}

// commonName returns the first of the host's names that both descriptions have. Its
// several names count as one fact.
func commonName(was, is appliance.System) (wasName, isName string) {
	for _, name := range [][2]string{
		{was.Hostname, is.Hostname}, {was.ExternalHostname, is.ExternalHostname}, {was.DisplayHost, is.DisplayHost},
	} {
		if name[0] != "" && name[1] != "" {
			return name[0], name[1]
		}
	}
	return "", ""
}
