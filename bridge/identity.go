package bridge

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

	"ndrbridge/admin"
	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

// streamIdentity is the stream name under which the state keeps what an appliance
// reports about itself. No polled stream has this name.
const streamIdentity = "identity"

// identity detects that another appliance answers under the name of a known one.
// Appliances have no system id, so it takes evidence that upgrading, renaming or
// readdressing one machine does not produce: two of three facts that changed at once,
// or a detection id that another detection had before. The finding is kept in the state
// until an operator drops it and is reported only once. Its methods are safe for
// concurrent use.
type identity struct {
	store  checkpoint.Sources
	source checkpoint.Source
	now    func() time.Time
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

// identityPosition is the position of streamIdentity in the state.
type identityPosition struct {
	appliance.System
	Replaced *admin.Replaced `json:"replaced,omitempty"`
}

func identitySource(appliance string) checkpoint.Source {
	return checkpoint.Source{Appliance: appliance, Stream: streamIdentity}
}

func newIdentity(appliance string, store checkpoint.Sources, log *slog.Logger) *identity {
	return &identity{store: store, source: identitySource(appliance), now: time.Now, log: log}
}

// observe compares what the appliance reports about itself with what it reported
// before.
func (i *identity) observe(ctx context.Context, is appliance.System) error {
	var changed []string
	replaced, err := i.change(ctx, func(p *identityPosition) (reason string) {
		changed = differences(p.System, is)
		if p.System = is; len(changed) > 1 {
			reason = strings.Join(changed, ", ")
		}
		return reason
	})
	if err == nil && !replaced && len(changed) == 1 {
		i.log.Warn(renamedMessage+"; "+renamedAdvice, "changed", changed[0])
	}
	return err
}

// reused records that a detection id was reused.
func (i *identity) reused(ctx context.Context, r poller.ReusedID) error {
	_, err := i.change(ctx, func(*identityPosition) string {
		return fmt.Sprintf("detection %d was created %s, and another one with this id %s",
			r.ID, r.Is.Format(time.RFC3339), r.Was.Format(time.RFC3339))
	})
	return err
}

// change applies f to the stored identity and commits the result if it differs. If f
// returns a reason to believe that the appliance was replaced and none is stored yet,
// the reason is stored and logged. replaced reports whether a reason is stored.
func (i *identity) change(ctx context.Context, f func(*identityPosition) (reason string)) (replaced bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, p, err := readIdentity(ctx, i.store, i.source)
	if err != nil {
		return false, err
	}
	if reason := f(&p); reason != "" && p.Replaced == nil {
		p.Replaced, replaced = &admin.Replaced{Since: i.now().UTC(), Reason: reason}, true
	}
	after, err := json.Marshal(p)
	if err != nil || bytes.Equal(before, after) {
		return p.Replaced != nil, err
	}
	if err := i.store.Commit(ctx, checkpoint.Commit{Source: i.source, Expect: before, Position: after}); err != nil {
		return false, err
	}
	if replaced {
		i.log.Error(replacedMessage+"; "+replacedAdvice, "reason", p.Replaced.Reason)
	}
	return p.Replaced != nil, nil
}

// readIdentity returns the stored identity and its encoding, which is nil if there is
// none.
func readIdentity(ctx context.Context, store checkpoint.Sources, source checkpoint.Source) (committed []byte, p identityPosition, err error) {
	if committed, err = store.Position(ctx, source); err != nil || committed == nil {
		return nil, p, err
	}
	if err := json.Unmarshal(committed, &p); err != nil {
		return nil, p, fmt.Errorf("read the stored identity of %s: %w", source, err)
	}
	return committed, p, nil
}

// differences describes the facts that differ. A fact that either side does not report
// is skipped.
func differences(was, is appliance.System) []string {
	var all []string
	for _, fact := range []struct{ name, was, is string }{
		{"hostname", nameOf(was), nameOf(is)},
		{"mgmt_ipaddr", was.MgmtIPAddr, is.MgmtIPAddr},
		{"platform", was.Platform, is.Platform},
	} {
		if fact.was != "" && fact.is != "" && fact.was != fact.is {
			all = append(all, fmt.Sprintf("%s was %s and is %s", fact.name, fact.was, fact.is))
		}
	}
	return all
}

// nameOf returns the host's name. Its several names count as one fact.
func nameOf(s appliance.System) string {
	return cmp.Or(s.Hostname, s.ExternalHostname, s.DisplayHost)
}
