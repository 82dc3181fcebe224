package operations

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ndrbridge/internal/admin"
)

// reload reloads the configuration of all live members, each
// from its own file. If some members fail, the error names them, and the others have
// reloaded theirs.
func (c *control) reload(ctx context.Context, _ admin.None) (admin.Reloaded, error) {
	members := c.shards.Members()
	changes, errs := make([][]string, len(members)), make([]error, len(members))
	var reloading sync.WaitGroup
	for i, m := range members {
		reloading.Go(func() {
			reloaded, err := m.Reload(ctx)
			changes[i], errs[i] = reloaded.Changes, err
		})
	}
	reloading.Wait()
	var failed, all []string
	var first error
	same := true
	for i, m := range members {
		if errs[i] != nil {
			failed = append(failed, m.Name)
			if first == nil {
				first = errs[i]
			}
		}
		same = same && slices.Equal(changes[i], changes[0])
		for _, change := range changes[i] {
			all = append(all, m.Name+": "+change)
		}
	}
	switch {
	case len(members) == 0:
		return admin.Reloaded{}, fmt.Errorf("no member of the cluster is known: %w", admin.ErrUnavailable)
	case len(failed) == len(members):
		return admin.Reloaded{}, fmt.Errorf("no member reloaded its configuration: %w", first)
	case len(failed) > 0:
		return admin.Reloaded{}, fmt.Errorf("%s did not reload the configuration, the other members did: %w", strings.Join(failed, ", "), first)
	case same:
		return admin.Reloaded{Changes: changes[0]}, nil
	}
	return admin.Reloaded{Changes: all}, nil
}
