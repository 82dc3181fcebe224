package preflight

import (
	"context"
	"errors"
	"net/http"

	"ndrbridge/appliance"
	"ndrbridge/preflight/finding"
)

// ticketing checks whether the appliance accepts ticket changes.
func (t *applianceTrial) ticketing(ctx context.Context) {
	const step = "ticketing"
	enabled, known, err := t.client.Ticketing(ctx)
	tracked := err == nil && known && enabled
	e, _ := errors.AsType[*appliance.Error](err)
	switch {
	case e != nil && e.Refused():
		t.add(finding.Remark, step, "the key may not read whether external ticket tracking is on: the appliance "+answerText(e), "")
	case err != nil && t.outOfTime(ctx, step):
	case err != nil:
		t.add(finding.Warning, step, err.Error(), "check again; if the error persists, see the appliance's own log")
	case !known:
		t.add(finding.Remark, step, "the appliance's answer does not show whether external ticket tracking is on", "")
	case !enabled:
		t.add(finding.Failed, step, "external ticket tracking is off", "switch it on in the appliance's administration settings; for a console, also on its sensors")
		return
	default:
		t.add(finding.OK, step, "external ticket tracking is on", "")
	}
	t.write(ctx, tracked)
}

// write sends a change without effect for all detections of a ticket that no detection
// has. A read-only key is refused. Acceptance does not prove that the key may write:
// the interface does not document whether an appliance checks the privileges first.
// tracked means that the appliance is known to accept tickets.
func (t *applianceTrial) write(ctx context.Context, tracked bool) {
	const step = "write"
	err := t.client.PatchTicket(ctx, "ndrbridge-check", appliance.DetectionChange{})
	e, _ := errors.AsType[*appliance.Error](err)
	answer := "accepts it"
	if e != nil {
		answer = answerText(e)
	}
	switch {
	case e != nil && e.Refused():
		t.add(finding.Failed, step, "the key may not write tickets: the appliance "+answer, "the owner of the key needs the write privilege")
	case err == nil, e != nil && (e.Status == http.StatusNotFound || e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity && tracked):
		t.add(finding.Remark, step, "the key may write, as far as can be tested without changing anything: asked to change a ticket that no detection has, the appliance "+answer, "")
	case t.outOfTime(ctx, step):
	default:
		t.add(finding.Warning, step, err.Error(), "check again; if the error persists, no ticket can be written: see the appliance's own log")
	}
}
