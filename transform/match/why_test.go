package match

import (
	"maps"
	"slices"
	"testing"

	"ndrbridge/transform"
)

func TestWhy(t *testing.T) {
	detection, audit := detectionEvent(t, tunnel), auditEvent(t)
	for _, test := range []struct {
		name, expression string
		event            transform.Event
		want             []string
	}{
		{"an event that matches has no reason", `detection.risk_score >= 60`, detection, nil},
		{"a field is shown with its value", `detection.risk_score >= 80`, detection, []string{"detection.risk_score >= 80 is false: detection.risk_score is 61"}},
		{"only the parts that are not true are shown", `event.stream == "detections" && detection.risk_score >= 80 && detection.status == "new"`, detection,
			[]string{"detection.risk_score >= 80 is false: detection.risk_score is 61", `detection.status == "new" is false: detection.status is null`}},
		{"both sides of or are shown", `detection.risk_score >= 80 || detection.type == "x"`, detection,
			[]string{"detection.risk_score >= 80 is false: detection.risk_score is 61", `detection.type == "x" is false: detection.type is "icmp_tunnel"`}},
		{"or that is true is not shown", `(detection.risk_score >= 80 || detection.recommended) && detection.is_user_created`, detection,
			[]string{"detection.is_user_created is false: detection.is_user_created is false"}},
		{"a missing field is named", `detection.risk_score >= 80`, audit, []string{"detection.risk_score >= 80 has no result, because a field is missing: detection.risk_score is missing"}},
		{"a field in brackets is shown", `detection["risk_score"] == 1`, detection, []string{`detection["risk_score"] == 1 is false: detection["risk_score"] is 61`}},
		{"a list is shown", `"sec.dos" in detection.categories`, detection, []string{`"sec.dos" in detection.categories is false: detection.categories is ["sec", "sec.command", "sec.attack"]`}},
		{"a loop is one part", `detection.participants.exists(p, p.role == "x" && detection.risk_score > 1)`, detection,
			[]string{`detection.participants.exists(p, p.role == "x" && detection.risk_score > 1) is false: detection.participants is [an object, an object], detection.risk_score is 61`}},
		{"has is one part", `has(detection.resolution)`, detection, []string{"has(detection.resolution) is false"}},
		{"a negation is one part", `!(detection.risk_score > 60)`, detection, []string{"!(detection.risk_score > 60) is false: detection.risk_score is 61"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			x, err := NewExplainer(test.expression)
			if err != nil {
				t.Fatal(err)
			}
			if got := x.Why(test.event); !slices.Equal(got, test.want) {
				t.Fatalf("%q\nwant %q", got, test.want)
			}
			compiled := maps.Clone(x.parts)
			if again := x.Why(test.event); !slices.Equal(again, test.want) || len(compiled) == 0 || !maps.Equal(x.parts, compiled) {
				t.Errorf("the second time: %q, with %d parts, and %d before", again, len(x.parts), len(compiled))
			}
		})
	}
}
