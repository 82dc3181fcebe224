package admin

import (
	"context"
	"net/http"
	"time"
)

// History holds samples of the last hour for charts, StepSeconds apart, oldest first.
// All its lists have the same length; nil stands for an unknown value. Its JSON is as
// stable as that of Status.
type History struct {
	StepSeconds int `json:"step_seconds"`
	// Until is when the last sample was taken.
	Until   time.Time      `json:"until,omitzero"`
	Journal JournalHistory `json:"journal"`
	// Streams and Sinks are in the order of the configuration.
	Streams []StreamHistory `json:"streams"`
	Sinks   []SinkHistory   `json:"sinks"`
}

// JournalHistory is the size of the journal.
type JournalHistory struct {
	Bytes []*int64 `json:"bytes"`
}

// StreamHistory is the history of a stream. A rate is the mean since the previous
// sample.
type StreamHistory struct {
	Appliance       string     `json:"appliance"`
	Stream          string     `json:"stream"`
	EventsPerSecond []*float64 `json:"events_per_second"`
	LagSeconds      []*float64 `json:"lag_seconds"`
}

// SinkHistory is the history of a sink. A rate is the mean since the previous sample.
type SinkHistory struct {
	Sink            string     `json:"sink"`
	EventsPerSecond []*float64 `json:"events_per_second"`
	LagEvents       []*uint64  `json:"lag_events"`
	LagSeconds      []*float64 `json:"lag_seconds"`
}

func history(c Control, w http.ResponseWriter, r *http.Request) {
	h, err := c.History(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, h)
}

// History implements Control.
func (c *Client) History(ctx context.Context) (h History, err error) {
	err = c.ask(ctx, call{method: http.MethodGet, path: []string{"history"}}, &h)
	return h, err
}
