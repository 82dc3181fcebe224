package poison_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/internal/poison"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestAnItemIsPoisonIfItKeepsFailingWhileOthersSucceed(t *testing.T) {
	for _, c := range []struct {
		name    string
		history string // F: the item fails, s: another succeeds
		poison  bool
	}{
		{"a failure after each success of another", strings.Repeat("sF", poison.GiveUpAfter), true},
		{"one failure less", strings.Repeat("sF", poison.GiveUpAfter-1), false},
		{"a first failure before any success does not count", "F" + strings.Repeat("sF", poison.GiveUpAfter-1), false},
		{"failures while nothing succeeds do not count", "s" + strings.Repeat("F", 1000), false},
		{"nor do successes while it does not fail", strings.Repeat("s", 1000) + "F", false},
		{"failures while the target was down count against nobody", strings.Repeat("sF", 10) + strings.Repeat("F", 100) + strings.Repeat("ssFF", 10), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f poison.Failures
			var successes uint64
			isPoison := false
			for _, event := range c.history {
				if event == 's' {
					successes++
				} else {
					isPoison = f.Add(successes)
				}
			}
			assert.Equal(t, isPoison, c.poison, "it is poison")
		})
	}
}

// Of any history with two items, each is poison exactly if others succeeded before
// GiveUpAfter of its failures, each time since the failure before.
func TestOnlyFailuresBetweenSuccessesOfOthersCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a", "b", "s"}), 0, 300).Draw(t, "history")
		items := map[string]*poison.Failures{"a": {}, "b": {}}
		var successes uint64
		for i, event := range history {
			if event == "s" {
				successes++
				continue
			}
			own, since := 0, false // what the history says
			for _, e := range history[:i+1] {
				switch {
				case e == "s":
					since = true
				case e == event && since:
					own, since = own+1, false
				}
			}
			got, want := items[event].Add(successes), own >= poison.GiveUpAfter
			require.Equal(t, got, want, history, event, "is poison", own, "failures of its own")
		}
	})
}

// Of any history, the target is at fault exactly if the last HaltAfter answers are
// rejections and it is not trusted.
func TestATargetIsAtFaultIfItRejectsManyInARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r poison.Rejections
		inARow, trusted := 0, false
		for range rapid.IntRange(0, 200).Draw(t, "answers") {
			switch rapid.IntRange(0, 60).Draw(t, "answer") {
			case 0:
				r.Accepted()
				inARow = 0
			case 1:
				r.Trust()
				trusted = true
			case 2:
				r.Distrust()
				trusted = false
			default:
				r.Add()
				inARow++
			}
			require.Equal(t, r.InARow(), inARow, "trusted", trusted, "rejections in a row")
			require.Equal(t, r.TargetAtFault(), inARow >= poison.HaltAfter && !trusted, "trusted", trusted, "at fault")
		}
	})
}

func TestARuleNeedsBothFailuresAndTime(t *testing.T) {
	first := time.Unix(1000, 0)
	rule := poison.Rule{Attempts: 3, After: time.Hour}
	for _, c := range []struct {
		failures int
		after    time.Duration
		want     bool
	}{{2, 2 * time.Hour, false}, {3, time.Hour - 1, false}, {3, time.Hour, true}, {100, time.Minute, false}, {100, time.Hour, true}} {
		assert.Equal(t, rule.GivesUp(c.failures, first, first.Add(c.after)), c.want, c.failures, "failures in", c.after, "it is given up")
	}
}
