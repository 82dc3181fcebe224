package poller

import (
	"errors"
	"time"
)

// answerDates follows the appliance's clock by the dates of its answers, which may come from
// several nodes. Times are in milliseconds since the epoch.
type answerDates struct {
	last     int64     // of the last answer, less skew
	latest   int64     // the latest of all
	skew     int64     // the largest known difference between the dates of two answers
	received time.Time // when the last answer was received, by the local clock
}

// errClockBack means that the appliance's clock went back.
var errClockBack = errors.New("the appliance's clock went back")

// tolerance is how far one answer's time may be behind another's although the clock did
// not go back: answers carry whole seconds.
const tolerance = time.Second

// answer records an answer that was received at a local time. It returns errClockBack if the
// clock went back. If it did by no more than delay, it may be another node whose clock is
// behind: from now on the time that the slowest node would return counts.
func (d *answerDates) answer(date int64, received time.Time, delay time.Duration) error {
	d.last, d.received = date-d.skew, received
	back := d.latest - date
	if d.latest == 0 || back <= max(tolerance.Milliseconds(), d.skew) {
		d.latest = max(d.latest, date)
		return nil
	}
	if back <= delay.Milliseconds() {
		d.skew = back
		d.last = date - d.skew
	}
	return errClockBack
}

// at returns the time that an answer would carry at a local time, or an earlier one; 0 if
// there was no answer yet. It is in whole seconds, as in the answers, so that it is not
// ahead of them.
func (d *answerDates) at(now time.Time) int64 {
	if d.received.IsZero() {
		return 0
	}
	elapsed := max(0, now.Sub(d.received))
	return (d.last + elapsed.Milliseconds()) / 1000 * 1000
}
