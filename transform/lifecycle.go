package transform

import (
	"cmp"
	"strconv"
)

// Lifecycle is when a detection reached its stages, by the versions that the bridge has seen: times
// of the appliance in milliseconds since the epoch, 0 if they are unknown or did not happen.
type Lifecycle struct {
	// FirstSeen is the detection's create_time, or without one the mod_time of the first version.
	FirstSeen int64
	// Acknowledged is the mod_time of the first version with the status acknowledged or in_progress.
	Acknowledged int64
	// Closed is the mod_time of the version that closed it; 0 after it was reopened.
	Closed int64
	// Reopened is the mod_time of the last version that reopened it.
	Reopened int64
}

// After returns the Lifecycle with a version, which follows one with the Detection.Tracked before,
// empty if there is none; created is that of Observation. What happened before the first version
// of a detection that was not seen from its creation is unknown.
func (l Lifecycle) After(before []byte, created bool, d Detection) Lifecycle {
	first := len(before) == 0
	if l.FirstSeen == 0 {
		l.FirstSeen = d.Created
		if first {
			l.FirstSeen = cmp.Or(d.Created, d.ModTime)
		}
	}
	if first && !created {
		return l
	}
	was, is := statusOf(before), statusOf(d.Tracked)
	isWork := func(status string) bool { return status == "acknowledged" || status == "in_progress" }
	if l.Acknowledged == 0 && isWork(is) && !isWork(was) {
		l.Acknowledged = d.ModTime
	}
	switch {
	case is == "closed" && was != "closed":
		l.Closed = d.ModTime
	case is != "closed" && was == "closed":
		l.Closed, l.Reopened = 0, d.ModTime
	}
	return l
}

// statusOf returns the status in a Detection.Tracked, or "".
func statusOf(tracked []byte) string {
	return Text(parseTracked(tracked).values[trackedIndex([]byte("status"))])
}

// append appends the known times as a member of an object, if there are any.
func (l Lifecycle) append(dst []byte) []byte {
	if l == (Lifecycle{}) {
		return dst
	}
	dst = append(dst, `,"lifecycle":{`...)
	for _, stage := range []struct {
		name string
		time int64
	}{{"first_seen", l.FirstSeen}, {"acknowledged", l.Acknowledged}, {"closed", l.Closed}, {"reopened", l.Reopened}} {
		if stage.time != 0 {
			dst = strconv.AppendInt(appendName(dst, stage.name), stage.time, 10)
		}
	}
	return append(dst, '}')
}
