package bridge

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"ndrbridge/admin"
	"ndrbridge/configs"
)

// Reload loads the configuration again and has the work apply the differences, as
// pipeline.Pipeline.Reload does.
//
// If Reload returns an error nothing was changed: the configuration is not valid, a
// part cannot be made, or a key differs that cannot change while the bridge runs. It is
// safe for concurrent use.
func (b *Bridge) Reload(ctx context.Context) (admin.Reloaded, error) {
	changes, err := b.work.Reload(ctx, b.next)
	if err != nil {
		return admin.Reloaded{}, fmt.Errorf("reload the configuration: %w", err)
	}
	return admin.Reloaded{Changes: changes}, nil
}

// next loads the configuration. It returns an error if a key differs that cannot change
// while the bridge runs.
func (b *Bridge) next(current *configs.Config) (*configs.Config, error) {
	if b.load == nil {
		return nil, errors.New("the bridge has no configuration to load again; restart it")
	}
	next, err := b.load()
	if err != nil {
		return nil, err
	}
	var fixed []string
	_, adjustable := b.log.Handler().(levelled)
	for _, key := range []struct {
		name          string
		current, next any
		fixed         bool
	}{
		{"state", current.State, next.State, true},
		{"cluster", current.Cluster, next.Cluster, true},
		{"admin.listen", current.Admin.Listen, next.Admin.Listen, true},
		{"admin.token", current.Admin.Token, next.Admin.Token, true},
		{"log.format", current.Log.Format, next.Log.Format, true},
		{"tracing", current.Tracing, next.Tracing, true},
		{"log.level", current.Log.Level, next.Log.Level, !adjustable},
	} {
		if key.fixed && !reflect.DeepEqual(key.current, key.next) {
			fixed = append(fixed, key.name)
		}
	}
	if len(fixed) > 0 {
		return nil, fmt.Errorf("%s cannot change while the bridge runs: restart it, or undo the change", strings.Join(fixed, ", "))
	}
	return next, nil
}
