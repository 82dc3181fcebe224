package appliance

import "time"

// Clock returns the appliance's time: the true time and its skew. Date headers,
// relative times and the mod_time of changes come from it.
func (a *Appliance) Clock() time.Time {
	return a.options.Now().Add(time.Duration(a.skew.Load()))
}

// SetSkew sets how far the appliance's clock is ahead of the true time; negative:
// behind. The clock changes at once.
func (a *Appliance) SetSkew(d time.Duration) { a.skew.Store(int64(d)) }

func (a *Appliance) millis() int64 { return a.Clock().UnixMilli() }
