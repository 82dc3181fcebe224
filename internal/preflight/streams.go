package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/poller"
)

// detections requests one detection with the stream's filter, and reports whether it can.
func (t *applianceTrial) detections(ctx context.Context) bool {
	const step = "detections"
	var page appliance.Page
	since := t.now().Add(-time.Hour).UnixMilli()
	if err := t.client.SearchDetections(ctx, appliance.Search{ModTime: since, Limit: 1, Filter: endpoint.Filter(t.config.Detections.Filter)}, &page); err != nil {
		t.explainUnreadable(ctx, step, err, "access to detections: the NDR module, or the NPM module for performance alone", "set detections.enabled to false", "detections.filter")
		return false
	}
	t.add(finding.OK, step, "they can be read", "")
	t.compareClocks(page.Date)
	return true
}

// audit requests one entry of the audit log.
func (t *applianceTrial) audit(ctx context.Context) {
	const step = "audit log"
	var page appliance.Page
	if err := t.client.AuditLog(ctx, 1, 0, &page); err != nil {
		t.explainUnreadable(ctx, step, err, "system and access administration privileges", "set audit.enabled to false", "audit")
		return
	}
	t.add(finding.OK, step, "it can be read", "")
	t.compareClocks(page.Date)
}

// records requests one record of the last minutes, with a cursor if store is own.
func (t *applianceTrial) records(ctx context.Context, q configs.RecordQuery) {
	step := "records " + q.Name
	var page appliance.RecordPage
	now := t.now()
	search := appliance.RecordSearch{
		From: now.Add(-15 * time.Minute).UnixMilli(), Until: now.UnixMilli(), Types: q.Types, Filter: endpoint.Filter(q.Filter), Limit: 1,
	}
	own, suspects := q.Store == string(poller.StoreOwn), "types and filter of the query"
	if own {
		search.ContextTTL = time.Second // the appliance drops the cursor after this time
		suspects = "types, filter and store of the query"
	}
	err := t.client.SearchRecords(ctx, search, &page)
	if e, ok := errors.AsType[*appliance.Error](err); ok && e.Status == http.StatusNotFound {
		t.add(finding.Failed, step, "the appliance "+answerText(e), "it has no record store and none is connected: connect one, or remove the query from records")
		return
	}
	if err != nil {
		t.explainUnreadable(ctx, step, err, "full write privileges", "remove the query from records", suspects)
		return
	}
	t.add(finding.OK, step, "they can be read", "")
	if own && page.Cursor == "" && page.Total > 1 {
		t.add(finding.Warning, step, "store is own, but the record store returns no cursor", "set store to auto or third_party")
	}
	if len(page.Warnings) > 0 {
		t.add(finding.Warning, step, "the record store warns about the query", "see types and filter of the query; a running bridge logs the warnings")
	}
	t.compareClocks(page.Date)
}

// compareClocks compares the appliance's clock with this machine's, once. The Date
// header has a resolution of one second.
func (t *applianceTrial) compareClocks(theirs time.Time) {
	if t.clock {
		return
	}
	t.clock = true
	const step, slight, much = "clock", 5 * time.Second, time.Minute
	apart := theirs.Sub(t.now().Truncate(time.Second))
	word := "ahead of"
	if apart < 0 {
		word = "behind"
	}
	detail := fmt.Sprintf("the appliance's is %s %s this machine's", apart.Abs(), word)
	switch {
	case apart.Abs() > much:
		t.add(finding.Warning, step, detail+": no events are lost, but lags and event times cannot be compared", "synchronize both by NTP, starting with the one that is wrong")
	case apart.Abs() > slight:
		t.add(finding.Warning, step, detail, "check that both are synchronized by NTP")
	default:
		t.add(finding.OK, step, "the appliance's agrees with this machine's", "")
	}
}
