package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func version(id, modTime int64) ledger.Version {
	return ledger.Version{ID: id, ModTime: modTime, Object: fmt.Sprintf(`{"id":%d,"mod_time":%d}`, id, modTime)}
}

func event(t *testing.T, v ledger.Version) transform.Event {
	t.Helper()
	e, err := transform.New(transform.Attributes{
		ID: fmt.Sprintf("%d-%d", v.ID, v.ModTime), Source: "ndrbridge://hq/detections", Type: "t.created", Subject: fmt.Sprint(v.ID),
	}, []byte(`{"detection":`+v.Object+`}`))
	require.NoError(t, err)
	return e
}

func TestASecondTicketBreaksTheGuarantee(t *testing.T) {
	var out strings.Builder
	err := conclude(ledger.New(), shown{}, chatCount{}, ticketCount{opened: 2, twice: 1}, &out)
	assert.ErrorIs(t, err, errMissing, &out)
	assert.Contains(t, out.String(), "1 tickets were opened for detections that already had one", &out)
}

func TestAStoryThatEndsEarlyBreaksTheGuarantee(t *testing.T) {
	var out strings.Builder
	err := conclude(ledger.New(), shown{}, chatCount{}, ticketCount{opened: 1, untold: storySteps[1]}, &out)
	assert.ErrorIs(t, err, errMissing, &out)
	assert.Contains(t, out.String(), "It did not happen that ada's comment arrived in the detection's note", &out)
}

func TestConclusion(t *testing.T) {
	a1, a2, b1 := version(1, 10), version(1, 20), version(2, 15)
	history := []ledger.Version{a1, b1, a2}
	for _, c := range []struct {
		name string
		log  []ledger.Version // what reached the file
		good bool
		want []string
	}{
		{"all is there", []ledger.Version{a1, b1, a2}, true,
			[]string{"2 detections in 3 versions", "log, file               3          3          0          0", "The chat received 12 messages with 34 cards", "5 tickets were opened in Jira; 4 detections were linked to their tickets, and 3 were closed", "Nothing is missing"}},
		{"duplicates are allowed", []ledger.Version{a1, b1, b1, a2}, true,
			[]string{"log, file               4          3          1          0", "Nothing is missing"}},
		{"a version that was replaced before the next poll is counted", []ledger.Version{b1, a2}, true,
			[]string{"Up to 1 versions were replaced", "Nothing is missing"}},
		{"a detection that is missing", []ledger.Version{a1, a2}, false,
			[]string{"log, file               2          2          0          1", "sink log: the last version of 1 detections"}},
		{"a last version that is missing", []ledger.Version{a1, b1}, false,
			[]string{"log, file               2          2          0          1", "sink log: the last version of 1 detections"}},
		{"the wrong order", []ledger.Version{b1, a2, a1}, false,
			[]string{"sink log: event 1-10 came after a later version"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := ledger.New()
			for _, v := range history {
				l.Receive(sinkBus, event(t, v))
				l.Receive(sinkSOC, event(t, v))
			}
			for _, v := range c.log {
				l.Receive(sinkLog, event(t, v))
			}
			var out strings.Builder
			err := conclude(l, shown{versions: history}, chatCount{messages: 12, cards: 34}, ticketCount{opened: 5, linked: 4, closed: 3}, &out)
			assert.True(t, (err == nil) == c.good && (err == nil || errors.Is(err, errMissing)), err)
			for _, want := range c.want {
				assert.Contains(t, out.String(), want, "the summary lacks", &out)
			}
			assert.True(t, c.good || !strings.Contains(out.String(), "Nothing is missing"), "the summary says that nothing is missing", &out)
		})
	}
}
