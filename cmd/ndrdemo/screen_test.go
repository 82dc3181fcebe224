package main

import (
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestThreeOfSomeEventsArePrintedWithoutControlCharacters(t *testing.T) {
	e, err := transform.New(transform.Attributes{
		ID: "1", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated", Subject: "7", Time: time.UnixMilli(1), SeverityNumber: 13,
	}, []byte(`{"detection":{"title":"\u001b[2J\nT","participants":[]},"changes":{"status":{"from":null,"to":"closed"}}}`))
	require.NoError(t, err)
	var out strings.Builder
	s := newScreen(&out)
	s.some.SetLimit(0)
	for range 5 {
		s.event(e)
	}
	assert.Equal(t, strings.Count(out.String(), " detections medium   updated  7  [2J T (status)\n"), 3, "events", &out)
}
