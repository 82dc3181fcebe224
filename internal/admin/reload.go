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
	Time time.Time `json:"time"` // when the configuration was loaded
	// What asked for it: signal (SIGHUP), api (a request), or watch (a watched file that changed).
	Trigger string `json:"trigger"`
	// Whether it succeeded; otherwise the bridge continues with the configuration that it had.
	OK      bool     `json:"ok"`
	Error   string   `json:"error,omitempty"`   // why it failed
	Changes []string `json:"changes,omitempty"` // what changed, in lines for people
}

// Reloaded lists what a reload changed.
type Reloaded struct {
	// Lines for people, such as sink lake: changed. Empty: nothing changed.
	Changes []string `json:"changes"`
}

// fillLists makes lists without items of those that are nil: the JSON has no null.
func (r *Reloaded) fillLists() {
	if r.Changes == nil {
		r.Changes = []string{}
	}
}
