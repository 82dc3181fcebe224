package tickets

import (
	"context"
	"errors"
	"net/http"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/internal/failure"
)

var errTrackingOff = errors.New("the appliance does not accept tickets: external ticket tracking is off; " +
	"turn it on in its settings or by PATCH of its resource ticketing; pending commands are then written")

// classOf returns the class of a failure, and how long to wait before the next request.
// If the failure may mean that ticket tracking is off, it makes the writer ask for that
// before the next write.
func (w *Writer) classOf(ctx context.Context, err error) (failure.Class, time.Duration) {
	e, ok := errors.AsType[*appliance.Error](err)
	if !ok {
		return failure.ClassOf(err)
	}
	switch {
	case e.Refused():
		return failure.Halted, 0
	case e.Throttled():
		return failure.Throttled, e.RetryAfter
	case e.Status == http.StatusUnprocessableEntity:
		// A 422 is about the command or about ticket tracking. If that cannot be
		// determined, assume tracking: the command was checked when it was accepted.
		enabled, known, err := w.client.Ticketing(ctx)
		if err == nil && known && enabled {
			return failure.Rejected, 0
		}
		w.untracked = err == nil && known
		return failure.Halted, 0
	case e.Status/100 == 3, e.Status == http.StatusMethodNotAllowed, e.Status == http.StatusGone,
		e.Status == http.StatusUnsupportedMediaType, e.Status == http.StatusProxyAuthRequired:
		return failure.Halted, 0
	case e.Status == http.StatusBadRequest, e.Status == http.StatusNotFound, e.Status == http.StatusRequestEntityTooLarge:
		return failure.Rejected, 0
	case e.Status == 0 && failure.TLSAdvice(e) != "":
		return failure.Halted, 0
	}
	return failure.Transient, e.RetryAfter
}

// isTrackingOff reports whether the appliance is known not to accept tickets. If it
// does not answer, or not as expected, the write is tried.
func (w *Writer) isTrackingOff(ctx context.Context) bool {
	enabled, known, err := w.client.Ticketing(ctx)
	return err == nil && known && !enabled
}

// answered reports whether the appliance answered the request: other commands may
// succeed.
func answered(err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return ok && e.Status != 0
}
