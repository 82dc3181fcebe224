package bridge

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// reloadPatience is how long a reload waits for an earlier one.
const reloadPatience = 30 * time.Second

// lastReload is the result of the last reload, also as metrics.
type lastReload struct {
	atomic.Pointer[admin.ReloadStatus] // nil: there has been none
	successful, succeeded              prometheus.Gauge
}

// newLastReload returns the result for a bridge that has just loaded its configuration.
func newLastReload(r prometheus.Registerer) *lastReload {
	last := &lastReload{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ndrbridge_config_last_reload_successful",
			Help: "1 if the last reload of the configuration succeeded, or there has been none; 0 if it failed.",
		}),
		succeeded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ndrbridge_config_last_reload_success_timestamp_seconds",
			Help: "When the configuration was last loaded successfully, at the start or by a reload.",
		}),
	}
	r.MustRegister(last.successful, last.succeeded)
	last.successful.Set(1)
	last.succeeded.SetToCurrentTime()
	return last
}

// set keeps the result of a reload. If only news are to be kept and s is none, it reports false.
func (l *lastReload) set(s admin.ReloadStatus, onlyNews bool) bool {
	if s.OK {
		l.succeeded.Set(float64(s.Time.UnixMilli()) / 1000)
	}
	last := l.Load()
	failed := last != nil && !last.OK
	if onlyNews && len(s.Changes) == 0 && failed == !s.OK && (s.OK || s.Error == last.Error) {
		return false
	}
	l.Store(&s)
	l.successful.Set(0)
	if s.OK {
		l.successful.Set(1)
	}
	return true
}

// Reload loads the configuration again and applies the differences, as
// pipeline.Pipeline.Reload does. trigger is one of admin's, such as admin.TriggerSignal.
//
// If Reload returns an error nothing was changed: the configuration is not valid, a
// part cannot be made, or a key differs that cannot change while the bridge runs. The
// result is logged and kept for the status; that of admin.TriggerWatch only if something changed
// or the last reload had another result. Reloads run one at a time. Reload returns
// admin.ErrBusy if an earlier one takes too long, and ctx's error if ctx is done; a reload that has
// begun continues.
func (b *Bridge) Reload(ctx context.Context, trigger string) (admin.Reloaded, error) {
	var result admin.Reloaded
	var failed error
	select {
	case b.reloading <- struct{}{}:
	case <-ctx.Done():
		return admin.Reloaded{}, ctx.Err()
	case <-time.After(reloadPatience):
		err := fmt.Errorf("%w: an earlier reload is still running; try again, or restart the bridge", admin.ErrBusy)
		b.log.Error("configuration not reloaded", "trigger", trigger, "error", err)
		return admin.Reloaded{}, err
	}
	done := make(chan struct{})
	go func() {
		defer func() { <-b.reloading }()
		defer close(done)
		result, failed = b.reload(context.WithoutCancel(ctx), trigger)
	}()
	select {
	case <-done:
		return result, failed
	case <-ctx.Done(): // a file may be on a share that is gone
		return admin.Reloaded{}, ctx.Err()
	}
}

// reload is Reload without its bounds.
func (b *Bridge) reload(ctx context.Context, trigger string) (admin.Reloaded, error) {
	result := admin.ReloadStatus{Time: time.Now(), Trigger: trigger, OK: true}
	next, err := b.next(b.work.Config())
	if err == nil {
		result.Changes, err = b.work.Reload(ctx, func() *configs.Config { return next })
	}
	if errors.Is(err, admin.ErrNotRunning) {
		return admin.Reloaded{}, err
	}
	b.setLevel(b.work.Config())
	if err != nil {
		err = fmt.Errorf("reload the configuration: %w", err)
		result.OK, result.Error = false, err.Error()
	}
	if !b.last.set(result, trigger == admin.TriggerWatch) {
		return admin.Reloaded{}, err
	}
	if err != nil {
		b.log.Error("configuration not reloaded; the bridge continues with the current one", "trigger", trigger, "error", err)
		return admin.Reloaded{}, err
	}
	b.log.Info("configuration reloaded", "trigger", trigger, "changes", len(result.Changes))
	return admin.Reloaded{Changes: result.Changes}, nil
}

// next loads the configuration. It returns an error if a key differs that cannot change
// while the bridge runs.
func (b *Bridge) next(current *configs.Config) (*configs.Config, error) {
	if b.load == nil {
		return nil, errors.New("the bridge has no configuration to load again; restart it")
	}
	next, err := b.loadWatched()
	if err != nil {
		return nil, err
	}
	var fixed []string
	for _, key := range []struct {
		name          string
		current, next any
	}{
		{"state", current.State, next.State},
		{"cluster", current.Cluster, next.Cluster},
		{"admin.listen", current.Admin.Listen, next.Admin.Listen},
		{"admin.token", current.Admin.Token, next.Admin.Token},
		{"admin.read_token", current.Admin.ReadToken, next.Admin.ReadToken},
		{"admin.tls", current.Admin.TLS, next.Admin.TLS},
		{"log.format", current.Log.Format, next.Log.Format},
	} {
		if !reflect.DeepEqual(key.current, key.next) {
			fixed = append(fixed, key.name)
		}
	}
	if len(fixed) > 0 {
		return nil, fmt.Errorf("%s cannot change while the bridge runs: restart it, or undo the change", strings.Join(fixed, ", "))
	}
	return next, nil
}
