package poller_test

import (
	"context"
	"testing"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
)

func TestAVerificationOfABusyApplianceEnds(t *testing.T) {
	report := poller.VerifyReport{Progress: func(string, int, time.Time) {}, Found: func(d poller.Difference) {
		assert.Equal(t, d.Kind, "pending", "found", d)
	}}
	check := func(v poller.Verification, err error) {
		t.Helper()
		pending := v.Differences["pending"]
		assert.True(t, err == nil && v.Same == 20 && v.Compared == v.Same+pending && pending <= 20, v, err, "want the 20 that were read, and a few more")
	}
	t.Run("where a detection appears with every request", func(t *testing.T) {
		w := newWorld(t)
		w.mustPoll()
		since := w.clock
		for range 20 {
			w.clock += 60_000
			w.add(w.clock)
		}
		w.mustPoll()
		check(poller.VerifyDetections(limited(t), busy{w.model}, w.state, w.options, time.UnixMilli(since), report))
	})
	for _, oldestFirst := range []bool{false, true} {
		t.Run(map[bool]string{false: "that logs with every request, newest first", true: "that logs with every request, oldest first"}[oldestFirst], func(t *testing.T) {
			w := newAuditWorld(t)
			w.oldestFirst = oldestFirst
			w.options.PageSize = 6
			w.options.Start = func(time.Time) time.Time { return time.Time{} }
			w.restartSource()
			w.writeMany(1)
			w.clock += 60_000
			since := w.clock
			w.writeMany(20)
			w.mustPoll()
			check(poller.VerifyAudit(limited(t), busyLog{w.auditModel, w}, w.state, w.options, time.UnixMilli(since), report))
		})
	}
}

// busy has another detection with every request.
type busy struct{ *model }

func (b busy) SearchDetections(ctx context.Context, s appliance.Search, page *appliance.Page) error {
	b.clock += 1000
	b.add(b.clock)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.model.SearchDetections(ctx, s, page)
}

// busyLog has another entry with every request.
type busyLog struct {
	*auditModel
	world *auditWorld
}

func (b busyLog) AuditLog(ctx context.Context, limit, offset int, page *appliance.Page) error {
	b.clock += 1000
	b.world.writeMany(1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.auditModel.AuditLog(ctx, limit, offset, page)
}
