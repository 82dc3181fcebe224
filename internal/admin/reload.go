package admin

import "time"

// What asked for a reload: the values of ReloadStatus.Trigger.
const (
	TriggerSignal = "signal" // SIGHUP
	TriggerAPI    = "api"
	TriggerWatch  = "watch" // a watched file changed
)

// ReloadStatus is the result of a reload of the configuration.
type ReloadStatus struct {
	Time    time.Time `json:"time"`    // when the configuration was loaded
	Trigger string    `json:"trigger"` // signal, api or watch
	// OK is false if the reload failed. Error is then the reason, and the bridge continues
	// with the configuration that it had.
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	// Changes are those of Reloaded.
	Changes []string `json:"changes,omitempty"`
}

// Reloaded lists what a reload changed.
type Reloaded struct {
	// Changes are lines for people, such as "sink lake: changed"; empty: nothing
	// changed.
	Changes []string `json:"changes"`
}

// fillLists makes lists without items of those that are nil: the JSON has no null.
func (r *Reloaded) fillLists() {
	if r.Changes == nil {
		r.Changes = []string{}
	}
}
