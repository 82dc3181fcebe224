package sinktest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// Events returns n different events of detections, with the given number of partition
// keys in turn. Each takes at least size bytes in structured form, and never less than
// about 400.
func Events(n, keys, size int) []transform.Event {
	events := make([]transform.Event, n)
	base := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for i := range events {
		detection := 25769804127 + i%keys
		at := base.Add(time.Duration(i) * time.Millisecond)
		id := strconv.Itoa(detection)
		data := fmt.Sprintf(`{"detection":{"id":%s,"mod_time":%d,"risk_score":%d,"title":"A scan of ports","description":%q}}`,
			id, at.UnixMilli(), i%100, filler(i, size-460))
		events[i] = mustNew(transform.Attributes{
			ID:             fmt.Sprintf("%s-%d-%d", id, at.UnixMilli(), size),
			Source:         "ndrbridge://hq/detections",
			Type:           "io.ndrbridge.detection.updated",
			Subject:        id,
			Time:           at,
			PartitionKey:   id,
			Appliance:      "hq",
			RecordedTime:   at.Add(3 * time.Second),
			SeverityNumber: 13,
			SeverityText:   "medium",
		}, data)
	}
	return events
}

// filler returns a text of n bytes that compresses about as well as a detection.
func filler(seed, n int) string {
	var b strings.Builder
	for x := uint64(seed)*2654435761 + 1; b.Len() < n; x = x*6364136223846793005 + 1442695040888963407 {
		fmt.Fprintf(&b, "Device %x sent to 192.0.2.%d. ", x>>40, x>>56)
	}
	return b.String()[:max(n, 0)]
}

// Awkward returns events that a careless encoder damages: numbers that a float64 cannot
// represent, decimals with a trailing zero, escapes, text of many scripts in data and
// attributes, two events with the same id from two sources, no optional attributes, and
// all streams.
func Awkward() []transform.Event {
	at := time.Date(2026, 2, 28, 23, 59, 59, 999e6, time.UTC)
	var events []transform.Event
	add := func(a transform.Attributes, data string) {
		a.ID = cmp.Or(a.ID, fmt.Sprintf("awkward-%d", len(events)))
		a.Source = cmp.Or(a.Source, "ndrbridge://hq/detections")
		a.Type = cmp.Or(a.Type, "io.ndrbridge.detection.created")
		a.PartitionKey = cmp.Or(a.PartitionKey, a.ID)
		events = append(events, mustNew(a, data))
	}
	add(transform.Attributes{}, `{"detection":{"id":18446744073709551615,"low":-9223372036854775808,"score":1.10,"big":1E+400}}`)
	add(transform.Attributes{}, `{"detection":{"title":"\u00e9\ud83d\ude00 \" \\ \/ \b\f\n\r\t \u0000 \u2028","raw":"é😀   <script>&"}}`)
	add(transform.Attributes{
		Subject: `a b "c" 100% \ é 😀 日本語 +&=;,/?#`, PartitionKey: "clé 1", Appliance: "hq",
		Time: at, RecordedTime: at.Add(time.Hour), SeverityNumber: 21, SeverityText: "critical", Repaired: true,
	}, `{"detection":{"title":"Überwachung 日本語 �"}}`)
	add(transform.Attributes{Subject: "%41%zz%"}, `{ "detection" : { "spaced" :  [ 1 , 2.50 ] } }`)
	add(transform.Attributes{}, "{\n\t\"detection\": {\r\n\t\t\"lines\": 1\n\t}\n}")
	add(transform.Attributes{ID: "7-1", Source: "ndrbridge://hq/audit", Type: "io.ndrbridge.audit.logged", Appliance: "hq", PartitionKey: "hq"}, `{"audit":{}}`)
	add(transform.Attributes{ID: "7-1", Source: "ndrbridge://branch/audit", Type: "io.ndrbridge.audit.logged", Appliance: "branch", PartitionKey: "branch"}, `{"audit":{"body":null}}`)
	add(transform.Attributes{Source: "ndrbridge://hq/records/dns", Type: "io.ndrbridge.record.stored", Subject: "~dns", Appliance: "hq"}, `{"record":{"timestamp":1569284181528.201}}`)
	add(transform.Attributes{Source: "ndrbridge://bridge/events", Type: "io.ndrbridge.heartbeat", Appliance: "bridge", PartitionKey: "bridge"}, `null`)
	return events
}

func mustNew(a transform.Attributes, data string) transform.Event {
	e, err := transform.New(a, []byte(data))
	if err != nil {
		panic(err)
	}
	return e
}

// ExpectFailure ends the test unless an error has a class and contains the texts.
func ExpectFailure(t require.T, err error, want failure.Class, texts ...string) {
	t.Helper()
	class, _ := failure.ClassOf(err)
	if err == nil || class != want {
		t.Fatalf("class %s, want %s: %v", class, want, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Fatalf("no %q in the error: %v", text, err)
		}
	}
}

// ExpectHidden ends the test if an error shows a secret.
func ExpectHidden(t require.T, err error, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("the error shows a secret: %v", err)
		}
	}
}
