package crash

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// evidenceTypes are the types of the detections that get evidence, and evidenceBefore is how long
// before their start its records begin.
var (
	evidenceTypes  = []string{"dns_tunnel", "kerberoasting"}
	evidenceBefore = time.Minute
)

// window is the time of the records in evidence, in milliseconds.
type window struct{ From, Until int64 }

// windowOf returns the window of a version.
func windowOf(d standin.Detection) window {
	end := min(cmp.Or(d.EndTime, d.UpdateTime, d.ModTime), d.ModTime)
	start := min(cmp.Or(d.StartTime, end), end) - evidenceBefore.Milliseconds()
	return window{max(start, end-7*24*time.Hour.Milliseconds()), end}
}

// matchEvidence records the next event of the journal. Evidence begins with its first position.
func (s *sensor) matchEvidence(e transform.Event) {
	f := s.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Stream() == transform.StreamDetections && !e.IsFollowUp() && f.contact[poller.StreamEvidence] && slices.Contains(evidenceTypes, parse(e).Detection.Type) {
		id, err := strconv.ParseInt(e.Subject, 10, 64)
		f.match[id] = err == nil
	}
}

// requireEvidence requires evidence of the detections whose versions were committed, and whose
// windows have passed. The bridge must not be running.
func (s *sensor) requireEvidence() {
	f := s.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := make(map[int64]bool) // since some version's window has yet to pass
	addressed := make(map[int64]bool)
	delayed := s.appliance.Clock().Add(-time.Minute).UnixMilli()
	for _, v := range s.appliance.History() {
		if !f.match[v.ID] {
			continue
		}
		d := v.Detection()
		waiting[v.ID] = waiting[v.ID] || windowOf(d).Until > delayed
		addressed[v.ID] = addressed[v.ID] || slices.ContainsFunc(d.Participants, func(p standin.Participant) bool {
			_, err := netip.ParseAddr(p.ObjectValue)
			return err == nil
		})
	}
	for id := range f.match {
		f.due[id] = addressed[id] && !waiting[id]
	}
}

// awaitEvidence waits until all evidence has reached a sink. Some may be dead letters, so it gives up
// if there is no progress.
func (s *sensor) awaitEvidence() {
	const enough = time.Minute
	f := &s.follow.arrived
	for most, progress := -1, time.Now(); time.Since(progress) < enough; time.Sleep(200 * time.Millisecond) {
		f.mu.Lock()
		missing, arrived := len(s.missingEvidence(f)), len(f.evidence) // required or not
		f.mu.Unlock()
		if missing == 0 {
			return
		}
		if arrived > most {
			most, progress = arrived, time.Now()
		}
	}
}

// giveUpEvidence records which evidence is a dead letter: its searches kept failing while others
// succeeded.
func (s *sensor) giveUpEvidence(t *testing.T, store *checkpoint.Store) {
	t.Helper()
	dead, err := store.Dead(t.Context(), checkpoint.SourceOwner(checkpoint.Source{Appliance: s.name, Stream: poller.StreamEvidence}), "", 10_000)
	require.NoError(t, err)
	for _, d := range dead {
		if id, err := strconv.ParseInt(strings.TrimSuffix(d.Key, "-evidence"), 10, 64); err == nil {
			s.follow.dead[id] = true
		}
	}
}

// missingEvidence returns the detections that the appliance shows, if they must have evidence.
func (s *sensor) missingEvidence(f *followed) (missing []string) {
	for _, v := range s.appliance.Latest() {
		if s.follow.due[v.ID] && !s.follow.dead[v.ID] && len(f.evidence[v.ID]) == 0 {
			missing = append(missing, fmt.Sprintf("the evidence of detection %d", v.ID))
		}
	}
	return missing
}

// evidenceFaults returns the detections that have evidence twice, or from a window that belongs to
// none of their versions.
func (s *sensor) evidenceFaults(f *followed) (faults []string) {
	windows := make(map[int64][]window)
	for _, v := range s.appliance.History() {
		if len(f.evidence[v.ID]) > 0 {
			windows[v.ID] = append(windows[v.ID], windowOf(v.Detection()))
		}
	}
	for id, evidence := range f.evidence {
		if len(evidence) > 1 {
			faults = append(faults, fmt.Sprintf("detection %d has evidence %d times", id, len(evidence)))
		}
		for _, e := range evidence {
			if !slices.Contains(windows[id], e) {
				faults = append(faults, fmt.Sprintf("the evidence of detection %d is from %v, and the windows of its versions are %v", id, e, windows[id]))
			}
		}
	}
	return faults
}
