package pipeline

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/assert"
)

// endAll stops parts that end when they are asked to.
func endAll(t *testing.T, ps *partSet) {
	t.Helper()
	assert.Empty(t, sortedNames(stopParts(context.Background(), ps.all(), NewStop(time.Minute))), "have not ended")
}

func TestStop(t *testing.T) {
	const timeout = 20 * time.Second
	quick := prompt(func(ctx context.Context) { <-ctx.Done() })
	inHand := task(func(_, late context.Context) { <-late.Done() })
	for _, c := range []struct {
		name          string
		source, sink  func(release <-chan struct{}) task
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
				var ps partSet
				stopped := make(chan time.Duration, 1)
				ps.start(t.Context(), lake(c.sink(release), prompt(func(ctx context.Context) {
					<-ctx.Done()
					stopped <- time.Since(begun)
				})))
				ps.start(t.Context(), &part{name: "appliance hq", tasks: []task{c.source(release)}})
				left := sortedNames(stopParts(context.Background(), ps.all(), NewStop(timeout)))
				took := time.Since(begun)
				assert.True(t, took == c.takes && slices.Equal(left, c.left), "it took", took, left, "are left; want", c.takes, c.left)
				assert.Equal(t, <-stopped, c.sinkStoppedAt, "the sink was stopped after")
				close(release)
				synctest.Wait()
				if left := ps.of("sink lake", "appliance hq"); len(left) > 0 {
					t.Errorf("%q run", sortedNames(left))
				}
			})
		})
	}
	t.Run("the end of the process ends a reload's stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			defer close(release)
			var ps partSet
			ps.start(t.Context(), lake(ignorant(release)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			left := sortedNames(stopParts(ctx, ps.of("sink lake"), NewStop(timeout)))
			took := time.Since(begun)
			assert.True(t, took == time.Second && len(left) == 1, "it took", took, left, "are left")
		})
	})
	t.Run("a part waits for an earlier one of its name", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			var ps partSet
			ps.start(t.Context(), lake(ignorant(release)))
			stopParts(t.Context(), ps.of("sink lake"), NewStop(timeout))
			begun := make(chan struct{})
			ps.start(t.Context(), lake(prompt(func(ctx context.Context) {
				close(begun)
				<-ctx.Done()
			})))
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
			var ps partSet
			endAll(t, &ps)
			ps.start(t.Context(), lake(prompt(func(context.Context) { t.Error("it begins") })))
			synctest.Wait()
		})
	})
}

func lake(tasks ...task) *part { return &part{name: "sink lake", phase: deliveryPhase, tasks: tasks} }

func use(t task) func(<-chan struct{}) task { return func(<-chan struct{}) task { return t } }

// ignorant is a task that ignores both contexts.
func ignorant(release <-chan struct{}) task {
	return func(context.Context, context.Context) { <-release }
}
