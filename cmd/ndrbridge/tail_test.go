package main

import (
	"testing"

	"ndrbridge/transform"
)

func TestTailFiltersByStream(t *testing.T) {
	for _, c := range []struct {
		source, stream string
		want           bool
	}{
		{"ndrbridge://hq/detections", "", true},
		{"ndrbridge://hq/detections", "detections", true},
		{"ndrbridge://hq/auditlog", "audit", true},
		{"ndrbridge://hq/records/dns", "records", true},
		{"ndrbridge://hq/records/dns", "records/dns", true},
		{"ndrbridge://hq/records/dns", "records/http", false},
		{"ndrbridge://hq/auditlog", "detections", false},
		{"ndrbridge://bridge/events", "events", true},
	} {
		e, err := transform.New(transform.Attributes{ID: "1", Source: c.source, Type: "io.ndrbridge.x"}, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := ofStream(e, c.stream); got != c.want {
			t.Errorf("%s is of %q: %v", c.source, c.stream, got)
		}
	}
}
