package bridge

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/admin"
)

// reloads keeps the result of the last reload and reports it in metrics. It is safe for
// concurrent use.
type reloads struct {
	successful, succeeded prometheus.Gauge

	mu   sync.Mutex
	last *admin.ReloadStatus // nil: there has been none; never changed
}

// newReloads returns the results of a bridge that loaded its configuration at a time.
func newReloads(r prometheus.Registerer, loaded time.Time) *reloads {
	results := &reloads{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ndrbridge_config_last_reload_successful",
			Help: "1 if the last reload of the configuration succeeded, or there has been none; 0 if it failed.",
		}),
		succeeded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ndrbridge_config_last_reload_success_timestamp_seconds",
			Help: "When the configuration was last loaded successfully, at the start or by a reload.",
		}),
	}
	r.MustRegister(results.successful, results.succeeded)
	results.succeed(loaded)
	return results
}

func (r *reloads) succeed(at time.Time) {
	r.successful.Set(1)
	r.succeeded.Set(float64(at.UnixMilli()) / 1000)
}

// finish keeps the result of a reload that loaded the configuration at a time, unless a
// later one has finished already.
func (r *reloads) finish(loaded time.Time, trigger string, changes []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && loaded.Before(r.last.Time) {
		return
	}
	r.last = &admin.ReloadStatus{Time: loaded, Trigger: trigger, OK: err == nil, Changes: changes}
	if err != nil {
		r.last.Error = err.Error()
		r.successful.Set(0)
		return
	}
	r.succeed(loaded)
}

// isNews reports whether a reload with this error has another result than the last one.
func (r *reloads) isNews(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return err != nil
	}
	return r.last.OK != (err == nil) || err != nil && r.last.Error != err.Error()
}

// status returns the result of the last reload, or nil.
func (r *reloads) status() *admin.ReloadStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
