package lifecycle

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// endAll stops parts that end when they are asked to.
func endAll(t *testing.T, ps *Set) {
	t.Helper()
	if left := Names(Stop(context.Background(), ps.All(), Within(time.Minute))); len(left) > 0 {
		t.Errorf("%q have not ended", left)
	}
}

func TestStop(t *testing.T) {
	const timeout = 20 * time.Second
	quick := Prompt(func(ctx context.Context) { <-ctx.Done() })
	inHand := Task(func(_, late context.Context) { <-late.Done() })
	for _, c := range []struct {
		name          string
		source, sink  func(release <-chan struct{}) Task
		takes         time.Duration
		left          []string
		sinkStoppedAt time.Duration
	}{
		{"parts that end at once cost no time", use(quick), use(quick), 0, nil, 0},
		{"a batch in flight has the whole of shutdown_timeout", use(quick), use(inHand), timeout, nil, 0},
		{"a ticket and a batch in flight have one deadline", use(inHand), use(inHand), timeout, nil, timeout / 2},
		{"a source that ignores the stop leaves the sinks half of it", ignorant, use(inHand), timeout + windDown, []string{"appliance hq"}, timeout / 2},
		{"a sink that ignores the stop is abandoned", use(quick), ignorant, timeout + windDown, []string{"sink lake"}, 0},
		{"both are named", ignorant, ignorant, timeout + windDown, []string{"appliance hq", "sink lake"}, timeout / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				begun := time.Now()
				var ps Set
				stopped := make(chan time.Duration, 1)
				ps.Start(t.Context(), "sink lake", DeliveryPhase, c.sink(release), Prompt(func(ctx context.Context) {
					<-ctx.Done()
					stopped <- time.Since(begun)
				}))
				ps.Start(t.Context(), "appliance hq", SourcePhase, c.source(release))
				left := Names(Stop(context.Background(), ps.All(), Within(timeout)))
				if took := time.Since(begun); took != c.takes || !slices.Equal(left, c.left) {
					t.Errorf("it took %s, and %q are left; want %s and %q", took, left, c.takes, c.left)
				}
				if at := <-stopped; at != c.sinkStoppedAt {
					t.Errorf("the sink was stopped after %s, want %s", at, c.sinkStoppedAt)
				}
				close(release)
				synctest.Wait()
				if left := ps.Of("sink lake", "appliance hq"); len(left) > 0 {
					t.Errorf("%q run", Names(left))
				}
			})
		})
	}
	t.Run("the end of the process ends a reload's stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			defer close(release)
			var ps Set
			ps.Start(t.Context(), "sink lake", DeliveryPhase, ignorant(release))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			left := Names(Stop(ctx, ps.Of("sink lake"), Within(timeout)))
			if took := time.Since(begun); took != time.Second || len(left) != 1 {
				t.Errorf("it took %s, and %q are left", took, left)
			}
		})
	})
	t.Run("a part waits for an earlier one of its name", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			var ps Set
			ps.Start(t.Context(), "sink lake", DeliveryPhase, ignorant(release))
			Stop(t.Context(), ps.Of("sink lake"), Within(timeout))
			begun := make(chan struct{})
			ps.Start(t.Context(), "sink lake", DeliveryPhase, Prompt(func(ctx context.Context) {
				close(begun)
				<-ctx.Done()
			}))
			time.Sleep(time.Hour)
			select {
			case <-begun:
				t.Error("it started while the other was running")
			default:
			}
			close(release)
			<-begun
			endAll(t, &ps)
		})
	})
	t.Run("nothing starts once all are stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ps Set
			endAll(t, &ps)
			ps.Start(t.Context(), "sink lake", DeliveryPhase, Prompt(func(context.Context) { t.Error("it begins") }))
			synctest.Wait()
		})
	})
}

func use(t Task) func(<-chan struct{}) Task { return func(<-chan struct{}) Task { return t } }

// ignorant is a task that ignores both contexts.
func ignorant(release <-chan struct{}) Task {
	return func(context.Context, context.Context) { <-release }
}
