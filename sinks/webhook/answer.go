package webhook

import (
	"fmt"
	"net/http"
	"time"

	"ndrbridge/internal/retryafter"
	"ndrbridge/sinks"
)

// Refusal classifies the answer by its status and Retry-After field alone, for services
// that document nothing more specific. It returns nil for 2xx and a *sinks.Error
// otherwise.
func (a Answer) Refusal() error {
	if a.Status/100 == 2 {
		return nil
	}
	class, wait := classAndWait(a.Status, a.Header)
	err := a.Error(class)
	err.RetryAfter = wait
	return err
}

// Error returns an error of the given class that quotes the answer.
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

// classAndWait returns the error class of a status that is not 2xx, and how long to
// wait before the next request.
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
