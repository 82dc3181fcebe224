package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"ndrbridge/poller"
	"ndrbridge/test/require"
)

// writeNotes writes notes about random detections until ctx is done. No two have the same text.
func (s *sensor) writeNotes(ctx context.Context, t *testing.T, random *rand.Rand) {
	n := 0
	each(ctx, 100*time.Millisecond, func() {
		v := s.pick(random)
		if v == nil || !s.follow.hasContact(poller.StreamNotes) {
			return
		}
		n++
		text := fmt.Sprintf("note %d of %s", n, s.name)
		body, err := json.Marshal(map[string]string{"note": text})
		require.NoError(t, err)
		f := s.follow
		f.mu.Lock()
		defer f.mu.Unlock()
		// Otherwise the detection is hidden, or has vanished.
		if ask(s.appliance, http.MethodPut, fmt.Sprintf("/detections/%d/notes", v.ID), string(body)).Code == http.StatusNoContent {
			f.written[v.ID] = append(f.written[v.ID], text)
		}
	})
}

// isNoteUnread reports whether the last note of a detection has yet to be reported.
func (s *sensor) isNoteUnread(detection int64) bool {
	f := s.follow
	f.mu.Lock()
	written := f.written[detection]
	f.mu.Unlock()
	f.arrived.mu.Lock()
	defer f.arrived.mu.Unlock()
	return len(written) > 0 && !slices.Contains(f.arrived.notes[detection], written[len(written)-1])
}

// missingNotes returns the last notes of the detections that the appliance shows, if they were not
// reported. Those that were replaced before they were read need not be.
func (s *sensor) missingNotes(f *followed) (missing []string) {
	for _, v := range s.appliance.Latest() {
		if written := s.follow.written[v.ID]; len(written) > 0 && !slices.Contains(f.notes[v.ID], written[len(written)-1]) {
			missing = append(missing, fmt.Sprintf("%q, the note of detection %d", written[len(written)-1], v.ID))
		}
	}
	return missing
}

// noteFaults returns the reported notes that were never written, that were reported twice, and that
// follow a later one.
func (s *sensor) noteFaults(f *followed) (faults []string) {
	for id, texts := range f.notes {
		last := -1
		for _, text := range texts {
			at := slices.Index(s.follow.written[id], text)
			if at <= last {
				faults = append(faults, fmt.Sprintf("the note %q of detection %d was reported after number %d of %q", text, id, last, s.follow.written[id]))
			}
			last = at
		}
	}
	return faults
}
