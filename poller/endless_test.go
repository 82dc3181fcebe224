package poller_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// The models of these tests ignore offset: every page begins at the first row.

type sameDetections struct{ *model }

func (s sameDetections) SearchDetections(ctx context.Context, search appliance.Search, page *appliance.Page) error {
	search.Offset = 0
	return s.model.SearchDetections(ctx, search, page)
}

type sameEntries struct{ *auditModel }

func (s sameEntries) AuditLog(ctx context.Context, limit, _ int, page *appliance.Page) error {
	return s.auditModel.AuditLog(ctx, limit, 0, page)
}

type sameRecords struct{ *recordModel }

func (s sameRecords) SearchRecords(ctx context.Context, search appliance.RecordSearch, page *appliance.RecordPage) error {
	search.Offset = 0
	return s.recordModel.SearchRecords(ctx, search, page)
}

// wantOffsetIgnored checks that what ran ended with an error that names the cause.
func wantOffsetIgnored(t *testing.T, err error, requests int) {
	t.Helper()
	assert.ErrorContains(t, err, "ignores offset")
	assert.True(t, requests <= 40, requests, "requests were made")
}

// limited is a context that ends a loop which the code does not end.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAnApplianceThatIgnoresOffsetEndsAPollWithAnError(t *testing.T) {
	report := poller.VerifyReport{Progress: func(string, int, time.Time) {}, Found: func(poller.Difference) {}}
	for name, run := range map[string]func(t *testing.T){
		"detections of one millisecond": func(t *testing.T) {
			w := newWorld(t)
			w.client = sameDetections{w.model}
			w.restart()
			w.mustPoll()
			w.clock += 1000
			for range 8 {
				w.add(w.clock)
			}
			w.requests = 0
			_, err := w.source.Poll(limited(t))
			wantOffsetIgnored(t, err, w.requests)
			w.requests = 0
			_, err = poller.VerifyDetections(limited(t), w.client, w.state, w.options, time.UnixMilli(w.clock-10_000), report)
			wantOffsetIgnored(t, err, w.requests)
		},
		"an audit log that comes newest first": func(t *testing.T) {
			w := newAuditWorld(t)
			w.options.Start = fromTheBeginning
			w.restartSource()
			w.writeMany(3)
			w.mustPoll()
			w.writeMany(50)
			w.source = poller.NewAudit(sameEntries{w.auditModel}, w.state, w.options)
			w.requests = 0
			_, err := w.source.Poll(limited(t))
			wantOffsetIgnored(t, err, w.requests)
			w.requests = 0
			_, err = poller.VerifyAudit(limited(t), sameEntries{w.auditModel}, w.state, w.options, time.UnixMilli(1), report)
			wantOffsetIgnored(t, err, w.requests)
		},
		"an audit log that comes oldest first": func(t *testing.T) {
			w := newAuditWorld(t)
			w.oldestFirst = true
			w.writeMany(50)
			w.source = poller.NewAudit(sameEntries{w.auditModel}, w.state, w.options)
			_, err := w.source.Poll(limited(t))
			wantOffsetIgnored(t, err, w.requests)
		},
		"an audit log without ids": func(t *testing.T) {
			w := newAuditWorld(t)
			w.options.Start = fromTheBeginning
			for range 50 {
				w.write(`{"operation":"Login"}`, func(e *logEntry) { e.unreadable = true })
			}
			w.source = poller.NewAudit(sameEntries{w.auditModel}, w.state, w.options)
			_, err := w.source.Poll(limited(t))
			wantOffsetIgnored(t, err, w.requests)
		},
	} {
		t.Run(name, run)
	}
}

func TestARecordStoreThatIgnoresOffsetIsReportedAndTheStreamGoesOn(t *testing.T) {
	var said bytes.Buffer
	w := atMinute(t, 0, func(w *recordWorld) {
		w.options.Store = poller.StoreThirdParty
		w.options.Log = slog.New(slog.NewTextHandler(&said, nil))
	})
	for range 12 {
		w.store(w.clock*1000 - 30_000_000) // one millisecond: no window is shorter
	}
	w.source = poller.NewRecords(sameRecords{w.recordModel}, w.state, w.options)
	ctx := limited(t)
	for range 1000 {
		next := require.Value(w.source.Poll(ctx))(t)
		if next == poller.Idle {
			break
		}
	}
	assert.Contains(t, said.String(), "ignores offset", "it is not reported", &said)
	assert.True(t, w.requests <= 1000, w.requests, "requests were made")
}
