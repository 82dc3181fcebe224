package match

import (
	"testing"

	"ndrbridge/transform"
)

func TestWhyNamesTheFirstPartThatIsNotTrue(t *testing.T) {
	detection, audit := detectionEvent(t, tunnel), auditEvent(t)
	for _, test := range []struct {
		name, expression string
		event            transform.Event
		want             string
	}{
		{"an event that matches has no reason", `detection.risk_score >= 60 && detection.recommended`, detection, ""},
		{"the only part", `detection.risk_score >= 80`, detection, "detection.risk_score >= 80"},
		{"the first of two", `event.stream == "detections" && detection.risk_score >= 80 && detection.status == "new"`, detection, "detection.risk_score >= 80"},
		{"a part in brackets", `detection.recommended && (detection.recommended && detection.status == "new")`, detection, `detection.status == "new"`},
		{"or is one part", `(detection.risk_score >= 80 || detection.type == "x") && detection.is_user_created`, detection, `detection.risk_score >= 80 || detection.type == "x"`},
		{"a missing field", `detection.risk_score >= 80`, audit, "detection.risk_score >= 80"},
		{"a part that fails before one that is false", `detection["title"] > 5 && detection.risk_score >= 80`, detection, "detection.risk_score >= 80"},
		{"a loop is one part", `detection.participants.exists(p, p.role == "x" && detection.risk_score > 1)`, detection, `detection.participants.exists(p, p.role == "x" && detection.risk_score > 1)`},
		{"has is one part", `has(detection.resolution)`, detection, "has(detection.resolution)"},
		{"a negation is one part", `!(detection.risk_score > 60 && detection.recommended)`, detection, "!(detection.risk_score > 60 && detection.recommended)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			x, err := NewExplainer(test.expression)
			if err != nil {
				t.Fatal(err)
			}
			if test.want != "" {
				test.want = "did not match: " + test.want
			}
			if got := x.Why(test.event); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
