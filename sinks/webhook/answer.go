package webhook

import (
	"fmt"
	"net/http"
	"time"

	"ndrbridge/internal/retryafter"
	"ndrbridge/sinks"
)

// Refusal is what an answer means by its status and its Retry-After field alone,
// where a service documents no more: nil for 2xx, else a *sinks.Error.
func (a Answer) Refusal() error {
	if a.Status/100 == 2 {
		return nil
	}
	class, wait := classAndWait(a.Status, a.Header)
	err := a.Error(class)
	err.RetryAfter = wait
	return err
}

// Error is an error of a class that says what the service answered.
func (a Answer) Error(class sinks.Class) *sinks.Error {
	text := statusText(a.Status)
	if hint := advice[a.Status]; hint != "" && class == sinks.Halted {
		text += fmt.Sprintf(" (%s)", hint)
	}
	if len(a.Body) > 0 {
		text += fmt.Sprintf(": %s", a.Body[:min(len(a.Body), maxDrained)])
	}
	return sinks.Errorf(class, "%s", text)
}

// classAndWait says what a status that is not 2xx means, and how long to wait.
func classAndWait(status int, header http.Header) (sinks.Class, time.Duration) {
	class := classOf(status)
	wait, asked := retryafter.Parse(header)
	if status == http.StatusServiceUnavailable && asked {
		class = sinks.Throttled
	}
	if class != sinks.Throttled {
		wait = 0
	}
	return class, wait
}
