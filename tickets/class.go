package tickets

import (
	"context"
	"errors"
	"net/http"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/sinks"
)

var errTrackingOff = errors.New("the appliance does not take tickets: external ticket tracking is off; " +
	"turn it on in its settings, or with PATCH of its resource ticketing, and what waits is written")

// classOf says what a failure means for the command and for the writer, and how long
// the appliance wants to be left alone. Where tracking is off, that is asked before
// the next write.
func (w *Writer) classOf(ctx context.Context, err error) (sinks.Class, time.Duration) {
	e, ok := errors.AsType[*appliance.Error](err)
	if !ok {
		return sinks.ClassOf(err)
	}
	switch {
	case e.Refused():
		return sinks.Halted, 0
	case e.Throttled():
		return sinks.Throttled, e.RetryAfter
	case e.Status == http.StatusUnprocessableEntity:
		// Where it cannot be told which of the two a 422 is about, it is not the
		// command, whose values were checked when it came in.
		enabled, known, err := w.client.Ticketing(ctx)
		if err == nil && known && enabled {
			return sinks.Rejected, 0
		}
		w.untracked = err == nil && known
		return sinks.Halted, 0
	case e.Status/100 == 3, e.Status == http.StatusMethodNotAllowed, e.Status == http.StatusGone,
		e.Status == http.StatusUnsupportedMediaType, e.Status == http.StatusProxyAuthRequired:
		return sinks.Halted, 0
	case e.Status == http.StatusBadRequest, e.Status == http.StatusNotFound, e.Status == http.StatusRequestEntityTooLarge:
		return sinks.Rejected, 0
	case e.Status == 0 && sinks.TLSAdvice(e) != "":
		return sinks.Halted, 0
	}
	return sinks.Transient, e.RetryAfter
}

// isTrackingOff asks whether the appliance takes no tickets. An answer of unknown
// shape, or none, means: try.
func (w *Writer) isTrackingOff(ctx context.Context) bool {
	enabled, known, err := w.client.Ticketing(ctx)
	return err == nil && known && !enabled
}

// answered reports whether the appliance said what is wrong: other commands may pass.
func answered(err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && e.Status != 0
}
