package appliance

import (
	"net/http"
	"sync"
	"time"
)

// skew is how far the appliance's clock is ahead of ours. A Date tells whole seconds,
// and was written at some time between request and answer: each answer bounds the
// skew, and all of them together do so closely.
type skew struct {
	mu        sync.Mutex
	heard     time.Time // when the last answer came; zero: none did
	low, high time.Duration
}

// drift is by how much two clocks come apart at most while none is set: half a
// millisecond in a second, which is how fast a clock is slewed.
const drift = 1.0 / 2000

// learn takes note of an answer.
func (s *skew) learn(header http.Header, asked, answered time.Time) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	low, high := date.Sub(answered), date.Add(time.Second).Sub(asked)
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Duration(float64(answered.Sub(s.heard)) * drift)
	if wasLow, wasHigh := s.low-since, s.high+since; !s.heard.IsZero() && low <= wasHigh && wasLow <= high {
		low, high = max(low, wasLow), min(high, wasHigh)
	} // else one of the clocks was set
	s.heard, s.low, s.high = answered, low, high
}

// ClockSkew is how far the appliance's clock is ahead of ours, by the Date headers of
// its answers; negative: behind. It is off by half a second at most, and by half of the
// time that the quickest of the last requests took. ok is false before the first.
func (c *Client) ClockSkew() (ahead time.Duration, ok bool) {
	s := &c.link.skew
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.low + s.high) / 2, !s.heard.IsZero()
}
