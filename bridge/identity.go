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

// streamIdentity is under which the state keeps what an appliance said of itself. No
// stream that is polled has this name.
const streamIdentity = "identity"

// identity notices that another appliance answers under the name of one that is known.
// There is no id of a system to go by, so it takes evidence that one machine does not
// give by an upgrade, a renamed host or another address: two of three facts that changed
// at once, or a detection's id that another detection had. What was noticed is kept in
// the state until an operator drops it, and nothing is reported a second time until then.
// Its methods are safe for concurrent use.
type identity struct {
	store  checkpoint.Sources
	source checkpoint.Source
	now    func() time.Time
	log    *slog.Logger

	mu sync.Mutex // held while the state is changed
}

// What is reported of an appliance that changed, and what to do about it.
const (
	isReplaced = "another appliance seems to answer under this name: its ids can be those of known detections, " +
		"and what it has from before the streams' positions is not read"
	ofReplaced = "give it a name of its own, or forget the other with ndrbridge state forget --appliance"
	isRenamed  = "the appliance names itself otherwise, and its streams go on"
	ofRenamed  = "if another machine took its place, see ndrbridge state forget --appliance"
)

// identityPosition is what the state keeps.
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

// matches compares what the appliance says of itself with what it said before.
func (i *identity) matches(ctx context.Context, is appliance.System) error {
	var changed []string
	replaced, err := i.change(ctx, func(p *identityPosition) (reason string) {
		changed = differences(p.System, is)
		if p.System = is; len(changed) > 1 {
			reason = strings.Join(changed, ", ")
		}
		return reason
	})
	if err == nil && !replaced && len(changed) == 1 {
		i.log.Warn(isRenamed+"; "+ofRenamed, "changed", changed[0])
	}
	return err
}

// reused takes note of an id that another detection had before.
func (i *identity) reused(ctx context.Context, r poller.ReusedID) error {
	_, err := i.change(ctx, func(*identityPosition) string {
		return fmt.Sprintf("detection %d was created %s, and another one with this id %s",
			r.ID, r.Is.Format(time.RFC3339), r.Was.Format(time.RFC3339))
	})
	return err
}

// change commits what f makes of what is kept, if that differs. If f returns a reason to
// take the appliance for another one, and none is kept yet, that is kept and reported.
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
		i.log.Error(isReplaced+"; "+ofReplaced, "reason", p.Replaced.Reason)
	}
	return p.Replaced != nil, nil
}

// readIdentity returns what the state keeps, and its encoding; zero and nil: nothing.
func readIdentity(ctx context.Context, store checkpoint.Sources, source checkpoint.Source) (committed []byte, p identityPosition, err error) {
	if committed, err = store.Position(ctx, source); err != nil || committed == nil {
		return nil, p, err
	}
	if err := json.Unmarshal(committed, &p); err != nil {
		return nil, p, fmt.Errorf("read what is kept of %s: %w", source, err)
	}
	return committed, p, nil
}

// differences words the facts that differ. What one of them does not say is none.
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

// nameOf is the host's name: its several names are one fact.
func nameOf(s appliance.System) string {
	return cmp.Or(s.Hostname, s.ExternalHostname, s.DisplayHost)
}
