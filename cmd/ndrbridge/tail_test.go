package main

import (
	"fmt"
	"testing"
	"time"

	"ndrbridge/transform"
)

func TestTheNewestEventsAreKept(t *testing.T) {
	var l newest
	for i := range 100 { // of two shards, one after the other
		at := time.Unix(int64(i%50*2+i/50), 0)
		e, err := transform.New(transform.Attributes{ID: fmt.Sprint(at.Unix()), Source: "ndrbridge://hq/auditlog", Type: "io.ndrbridge.x", RecordedTime: at}, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		l.add(e, 3)
		if len(l.events) > 2*3+usualLines {
			t.Fatalf("%d events are held", len(l.events))
		}
	}
	var got []string
	for _, e := range l.take(3) {
		got = append(got, e.ID)
	}
	if fmt.Sprint(got) != "[97 98 99]" {
		t.Errorf("%v", got)
	}
}

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
