package main

import (
	"fmt"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestTheNewestEventsAreKept(t *testing.T) {
	const padding = 1000 // more than the rest of an event
	for _, c := range []struct {
		name     string
		maxBytes int
		want     string
		short    bool
	}{
		{"as many as asked for", 100 * padding, "[97 98 99]", false},
		{"as many as there is space for", 3 * padding, "[98 99]", true},
		{"at least one", 1, "[99]", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newest{n: 3, maxBytes: c.maxBytes}
			for i := range 100 {
				at := time.Unix(int64(i), 0)
				e, err := transform.New(transform.Attributes{ID: fmt.Sprint(at.Unix()), Source: "ndrbridge://hq/audit", Type: "io.ndrbridge.x", RecordedTime: at},
					fmt.Appendf(nil, `{"padding":"%0*d"}`, padding, 0))
				require.NoError(t, err)
				l.add(e)
				if len(l.events) > 2*3+usualLines || len(l.events) > 1 && l.bytes > 2*c.maxBytes {
					t.Fatalf("%d events of %d bytes are held", len(l.events), l.bytes)
				}
			}
			var got []string
			for _, e := range l.kept() {
				got = append(got, e.ID)
			}
			assert.Equal(t, fmt.Sprint(got), c.want, got)
			assert.Equal(t, l.short, c.short, got, "short")
		})
	}
}

func TestTailFiltersByStream(t *testing.T) {
	for _, c := range []struct {
		source, stream string
		want           bool
	}{
		{"ndrbridge://hq/detections", "", true},
		{"ndrbridge://hq/detections", "detections", true},
		{"ndrbridge://hq/audit", "audit", true},
		{"ndrbridge://hq/records/dns", "records", true},
		{"ndrbridge://hq/records/dns", "records/dns", true},
		{"ndrbridge://hq/records/dns", "records/http", false},
		{"ndrbridge://hq/audit", "detections", false},
		{"ndrbridge://bridge/events", "events", true},
	} {
		e, err := transform.New(transform.Attributes{ID: "1", Source: c.source, Type: "io.ndrbridge.x"}, []byte(`{}`))
		require.NoError(t, err)
		assert.Equal(t, ofStream(e, c.stream), c.want, c.source, "is of", c.stream)
	}
}
