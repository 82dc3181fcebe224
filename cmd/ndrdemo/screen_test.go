package main

import (
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestScreen(t *testing.T) {
	const (
		heading = `        detections     audit log           bus, NATS         soc, webhook
 time | shown versions entries records | events dup wait | events dup wait
`
		row = ` 1:02 |   312      345      61      80 |    345   0    0 |   1340  12    7
`
	)
	r := report{detections: 312, versions: 345, entries: 61, records: 80, sinks: []sinkReport{
		{demoSink: demoSink{"bus", "NATS"}, events: 345},
		{demoSink: demoSink{"soc", "webhook"}, events: 1340, duplicates: 12, waiting: 7},
	}}
	t.Run("rows stand between the lines, and the heading comes again", func(t *testing.T) {
		var out strings.Builder
		s := &screen{out: &out}
		s.line("one")
		for range 10 {
			s.row(62*time.Second, r)
		}
		s.line("two")
		s.row(62*time.Second, r)
		assert.Equal(t, out.String(), "one\n"+heading+strings.Repeat(row, 10)+"two\n"+heading+row, &out)
	})
	t.Run("it is caught up when no sink waits", func(t *testing.T) {
		assert.False(t, r.caughtUp(), "a sink waits, and the report says caught up")
		r.sinks[1].waiting = 0
		assert.True(t, r.caughtUp(), "no sink waits, and the report does not say caught up")
	})
	t.Run("three events are printed between two rows, without control characters", func(t *testing.T) {
		e, err := transform.New(transform.Attributes{
			ID: "1", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated", Subject: "7", Time: time.UnixMilli(1), SeverityNumber: 13,
		}, []byte(`{"detection":{"title":"\u001b[2J\nT","participants":[]},"changes":{"status":{"from":null,"to":"closed"}}}`))
		require.NoError(t, err)
		var out strings.Builder
		s := &screen{out: &out}
		for range 2 {
			for range 5 {
				s.event(e)
			}
			s.row(0, r)
		}
		assert.Equal(t, strings.Count(out.String(), " detections medium   updated  7  [2J T (status)\n"), 6, "events", &out)
	})
}
