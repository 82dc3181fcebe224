package bridge

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// Reload loads the configuration again and has the work apply the differences, as
// pipeline.Pipeline.Reload does. trigger is one of admin's, such as admin.TriggerSignal.
//
// If Reload returns an error nothing was changed: the configuration is not valid, a
// part cannot be made, or a key differs that cannot change while the bridge runs. The
// result is logged and kept for the status. Reload is safe for concurrent use.
func (b *Bridge) Reload(ctx context.Context, trigger string) (admin.Reloaded, error) {
	return b.reload(ctx, trigger, false)
}

// reload is Reload. If repeated is true, nothing is known to have changed since the last
// one, and the result is logged and kept only if it differs from that one's.
func (b *Bridge) reload(ctx context.Context, trigger string, repeated bool) (admin.Reloaded, error) {
	var begun atomic.Pointer[time.Time] // loading may continue after Reload
	changes, err := b.work.Reload(ctx, func(current *configs.Config) (*configs.Config, error) {
		now := time.Now()
		begun.Store(&now)
		return b.next(current)
	})
	if errors.Is(err, admin.ErrNotRunning) { // the configuration may still be loading
		return admin.Reloaded{}, err
	}
	if err != nil {
		err = fmt.Errorf("reload the configuration: %w", err)
	}
	loaded := begun.Load()
	if loaded == nil { // it did not begin
		if ctx.Err() == nil {
			b.log.Error("configuration not reloaded", "trigger", trigger, "error", err)
		}
		return admin.Reloaded{}, err
	}
	if repeated && len(changes) == 0 && !b.reloads.isNews(err) {
		return admin.Reloaded{}, err
	}
	b.reloads.finish(*loaded, trigger, changes, err)
	select {
	case b.reloaded <- struct{}{}:
	default: // Watch has yet to see the previous one
	}
	if err != nil {
		b.log.Error("configuration not reloaded; the bridge continues with the current one", "trigger", trigger, "error", err)
		return admin.Reloaded{}, err
	}
	b.log.Info("configuration reloaded", "trigger", trigger, "changes", len(changes))
	return admin.Reloaded{Changes: changes}, nil
}

// reload is Bridge.Reload for the admin API.
type reload func(context.Context) (admin.Reloaded, error)

// reloadForAPI is Reload for a request.
func (b *Bridge) reloadForAPI(ctx context.Context) (admin.Reloaded, error) {
	return b.Reload(ctx, admin.TriggerAPI)
}

// next loads the configuration. It returns an error if a key differs that cannot change
// while the bridge runs.
func (b *Bridge) next(current *configs.Config) (*configs.Config, error) {
	if b.load == nil {
		return nil, errors.New("the bridge has no configuration to load again; restart it")
	}
	next, err := b.watched.load(b.load)
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
		{"admin.read_token", current.Admin.ReadToken, next.Admin.ReadToken, true},
		{"admin.tls", current.Admin.TLS, next.Admin.TLS, true},
		{"log.format", current.Log.Format, next.Log.Format, true},
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
