package sinks_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func testEvent(t *testing.T) transform.Event {
	return require.Value(transform.Encoder{Appliance: transform.Bridge}.SinkTest("lake", time.Now()))(t)
}

func TestATestEventHasNoEffectOnTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := testEvent(t)
		f := newFixture(t, 3, &target{answer: func(_ int, ids []string) error {
			if slices.Contains(ids, e.ID) {
				return failure.Errorf(failure.Halted, "no")
			}
			return nil
		}})
		stop := f.start()
		pass(time.Minute)
		for range 30 {
			class, _ := failure.ClassOf(f.runner.SendTest(t.Context(), e))
			assert.Equal(t, class, failure.Halted, "class")
		}
		f.append(t, 4, 6)
		pass(time.Minute)
		s := f.runner.Status()
		assert.True(t, s.State == sinks.StateRunning && s.Delivered == 6, "status", s)
		stop()
		f.expectInAnyOrder(t, numbers(1, 6))
	})
}

func TestATestEventIsSentToAHaltedSinkThatIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := testEvent(t)
		f := newFixture(t, 3, &target{answer: func(_ int, ids []string) error {
			if slices.Contains(ids, e.ID) {
				return nil
			}
			return failure.Errorf(failure.Halted, "no")
		}})
		stop := f.start()
		pass(time.Second)
		require.Equal(t, f.runner.Status().State, sinks.StateHalted)
		opened := f.opened
		require.NoError(t, f.runner.SendTest(t.Context(), e))
		assert.Equal(t, f.opened, opened+1, "opened")
		assert.Equal(t, f.runner.Status().State, sinks.StateHalted)
		assert.EqualSlices(t, f.accepted, []string{e.ID}, "accepted")
		stop()
	})
}

func TestATestEventWaitsForAnotherSendAndEndsWithTheRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, &target{answer: acceptAll, hold: make(chan struct{})})
		assert.ErrorContains(t, f.runner.SendTest(t.Context(), testEvent(t)), "being started or stopped")
		stop := f.start()
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.ErrorContains(t, f.runner.SendTest(ctx, testEvent(t)), "the sink is sending other events")
		close(f.hold)
		pass(time.Second)
		stop()
		assert.ErrorContains(t, f.runner.SendTest(t.Context(), testEvent(t)), "being started or stopped")
		assert.Equal(t, f.closed, f.opened, "closed")
		f.expectInAnyOrder(t, numbers(1, 3))
	})
}
