package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
)

// participantsChange is what an event says about the participants of two versions.
type participantsChange struct {
	Added, Removed, Changed []struct{ ID int64 }
}

// changeParticipants adds participants to random detections, changes and removes them, until ctx is
// done.
func (s *sensor) changeParticipants(ctx context.Context, _ *testing.T, random *rand.Rand) {
	const first, most = int64(1) << 53, 5
	n := int64(0)
	each(ctx, 100*time.Millisecond, func() {
		v := s.pick(random)
		if v == nil {
			return
		}
		n++
		added := standin.Participant{
			ID: first + n, Role: "victim", ObjectType: "device", ObjectID: 1<<20 + random.Int64N(500), ObjectValue: fmt.Sprintf("10.9.0.%d", 1+random.IntN(250)),
		}
		how := random.IntN(3)
		// It fails if the detection has vanished.
		_ = s.appliance.Update(func(d *standin.Detection) {
			d.Participants = slices.Clone(d.Participants)
			last := len(d.Participants) - 1
			switch {
			case how == 0 && d.Participants[last].ID > first:
				d.Participants = d.Participants[:last]
			case how == 1:
				d.Participants[last].Username = standin.Text(fmt.Sprintf("user%d", n))
			case last+1 < most:
				d.Participants = append(d.Participants, added)
			}
		}, v.ID)
	})
}

// participantsOf returns what counts of the participants of a version, by id.
func participantsOf(data followUpData) map[int64]string {
	of := make(map[int64]string)
	for _, raw := range data.Detection.Participants {
		var p standin.Participant
		if err := json.Unmarshal(raw, &p); err != nil {
			panic(err) // the appliance has encoded it
		}
		p.Hostname = ""
		of[p.ID] = fmt.Sprint(p)
	}
	return of
}

// compareParticipants compares what an event says about the participants that have changed with
// those of the version before.
func (f *followed) compareParticipants(id int64, event string, data followUpData) {
	before, known := f.participants[id]
	now := participantsOf(data)
	f.participants[id] = now
	if !known {
		return
	}
	var added, removed, changed []int64
	for p := range now {
		if was, there := before[p]; !there {
			added = append(added, p)
		} else if was != now[p] {
			changed = append(changed, p)
		}
	}
	for p := range before {
		if _, there := now[p]; !there {
			removed = append(removed, p)
		}
	}
	var said participantsChange
	if data.Changes.Participants != nil {
		said = *data.Changes.Participants
	}
	for _, c := range []struct {
		what string
		is   []int64
		said []struct{ ID int64 }
	}{{"added", added, said.Added}, {"removed", removed, said.Removed}, {"changed", changed, said.Changed}} {
		if ids := idsOf(c.said); !slices.Equal(slices.Sorted(slices.Values(c.is)), ids) {
			f.faults = append(f.faults, fmt.Sprintf("event %s: the participants %d were %s, and it says %d", event, c.is, c.what, ids))
		}
	}
	if len(added)+len(removed)+len(changed) > 0 {
		f.counts["changes.participants"]++
	}
}

func idsOf(of []struct{ ID int64 }) (ids []int64) {
	for _, o := range of {
		ids = append(ids, o.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// knownDevices are the devices in the context of the last version of a detection.
type knownDevices struct {
	modTime int64
	ids     []int64
}

func devicesOf(data followUpData) knownDevices {
	return knownDevices{data.Detection.ModTime, idsOf(data.Context.Devices)}
}

// addContext records the event of a context, if it is about the last version.
func (f *followed) addContext(id int64, data followUpData) {
	if f.contexts[id].modTime == data.Detection.ModTime {
		f.contexts[id] = devicesOf(data)
	}
}

// missingContexts returns the detections that the appliance shows, if not all of their devices are
// known from their last version and its context.
func (s *sensor) missingContexts(f *followed) (missing []string) {
	for _, v := range s.appliance.Latest() {
		devices := make(map[int64]bool)
		for _, p := range v.Detection().Participants {
			if p.ObjectType == "device" {
				devices[p.ObjectID] = true
			}
		}
		if ids := slices.Sorted(maps.Keys(devices)); !slices.Equal(ids, f.contexts[v.ID].ids) {
			missing = append(missing, strings.TrimSpace(fmt.Sprintf("the context of detection %d-%d with the devices %d: known are those of %v", v.ID, v.ModTime, ids, f.contexts[v.ID])))
		}
	}
	return missing
}
