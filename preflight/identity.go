package preflight

import (
	"context"
	"strings"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/pipeline/identity"
	"ndrbridge/preflight/finding"
)

// keptIdentities returns the identities that the state keeps, by appliance name. It
// only reads the state. A state that cannot be read, for example because a bridge runs,
// yields none; checkState reports it.
func keptIdentities(ctx context.Context, config *configs.Config) map[string]identity.Known {
	store, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true, Quick: true, LockWait: -1})
	if err != nil {
		return nil
	}
	defer store.Close()
	kept := make(map[string]identity.Known)
	for _, a := range config.Appliances {
		if known, found, err := identity.Read(ctx, store, a.Name); err == nil && found {
			kept[a.Name] = known
		}
	}
	return kept
}

// identity compares the appliance with the identity in the state, as a running bridge
// does. It skips appliances that do not describe themselves.
func (t *applianceTrial) identity(ctx context.Context, kept identity.Known) {
	if r := kept.Replaced; r != nil {
		t.add(finding.Warning, "identity", identity.ReplacedMessage+": "+r.Reason, identity.ReplacedAdvice)
		return
	}
	is, err := t.client.System(ctx)
	if err != nil {
		return
	}
	switch changed := kept.Differences(is); len(changed) {
	case 0:
	case 1:
		t.add(finding.Remark, "identity", identity.RenamedMessage+": "+changed[0], identity.RenamedAdvice)
	default:
		t.add(finding.Warning, "identity", identity.ReplacedMessage+": "+strings.Join(changed, ", "), identity.ReplacedAdvice)
	}
}
