package bridge

import (
	"context"
	"errors"
	"net/http"

	"ndrbridge/appliance"
	"ndrbridge/preflight"
)

// ticketing asks whether the appliance takes tickets.
func (t *applianceTrial) ticketing(ctx context.Context) {
	const step = "ticketing"
	enabled, known, err := t.client.Ticketing(ctx)
	tracked := err == nil && known && enabled
	e, _ := errors.AsType[*appliance.Error](err)
	switch {
	case e != nil && e.Refused():
		t.add(preflight.Remark, step, "the key may not look whether external ticket tracking is on: the appliance "+answerText(e), "")
	case err != nil && t.outOfTime(ctx, step):
	case err != nil:
		t.add(preflight.Warning, step, err.Error(), "check again; if it stays, see the appliance's own log")
	case !known:
		t.add(preflight.Remark, step, "the appliance does not say in known words whether external ticket tracking is on", "")
	case !enabled:
		t.add(preflight.Failed, step, "external ticket tracking is off", "switch it on in the appliance's administration settings; of a console, on its sensors, too")
		return
	default:
		t.add(preflight.OK, step, "external ticket tracking is on", "")
	}
	t.write(ctx, tracked)
}

// write asks for a change that changes nothing, of all detections with a ticket that
// none has. A key that only reads is refused that. That it is not is no proof that the
// key may write: the interface does not report whether an appliance looks at the key's
// privileges first. tracked says that the appliance is known to take tickets.
func (t *applianceTrial) write(ctx context.Context, tracked bool) {
	const step = "write"
	err := t.client.PatchTicket(ctx, "ndrbridge-check", appliance.DetectionChange{})
	e, _ := errors.AsType[*appliance.Error](err)
	answer := "takes it"
	if e != nil {
		answer = answerText(e)
	}
	switch {
	case e != nil && e.Refused():
		t.add(preflight.Failed, step, "the key may not write tickets: the appliance "+answer, "the owner of the key needs the write privilege")
	case err == nil, e != nil && (e.Status == http.StatusNotFound || e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity && tracked):
		t.add(preflight.Remark, step, "the key may write, as far as can be seen without changing anything: asked for a change of a ticket that no detection has, the appliance "+answer, "")
	case t.outOfTime(ctx, step):
	default:
		t.add(preflight.Warning, step, err.Error(), "check again; if it stays, no ticket can be written: see the appliance's own log")
	}
}
