package bridge

import (
	"context"
	"strings"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/preflight"
)

// keptIdentities returns the identities that the state keeps, by appliance name. It
// only reads the state. A state that cannot be read, for example because a bridge runs,
// yields none; checkState reports it.
func keptIdentities(ctx context.Context, config *configs.Config) map[string]identityPosition {
	store, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true, Quick: true, LockWait: -1})
	if err != nil {
		return nil
	}
	defer store.Close()
	kept := make(map[string]identityPosition)
	for _, a := range config.Appliances {
		if committed, p, err := readIdentity(ctx, store, identitySource(a.Name)); err == nil && committed != nil {
			kept[a.Name] = p
		}
	}
	return kept
}

// identity compares the appliance with the identity in the state, as a running bridge
// does. It skips appliances that do not describe themselves.
func (t *applianceTrial) identity(ctx context.Context, kept identityPosition) {
	if r := kept.Replaced; r != nil {
		t.add(preflight.Warning, "identity", replacedMessage+": "+r.Reason, replacedAdvice)
		return
	}
	is, err := t.client.System(ctx)
	if err != nil {
		return
	}
	switch changed := differences(kept.System, is); len(changed) {
	case 0:
	case 1:
		t.add(preflight.Remark, "identity", renamedMessage+": "+changed[0], renamedAdvice)
	default:
		t.add(preflight.Warning, "identity", replacedMessage+": "+strings.Join(changed, ", "), replacedAdvice)
	}
}
