package ticketopener_test

import (
	"bytes"
	"testing"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// Whatever a system answers, a sink delivers the event or returns a class, and
// remembers no ticket without an id.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`{"issues": [{"key": "SEC-1"}]}`, `{"key": "SEC-1"}`, `{"result": [{"number": "INC1", "correlation_id": "ndrbridge-hq-7"}]}`,
		`{"result": {"number": "INC1", "sys_id": "a"}}`, `{"ticket": {"number": 1}}`, `{"tickets": [{"number": "A-1"}, 2]}`, `[[]]`, `<html>`, ``,
	} {
		f.Add(200, body)
	}
	event := version(f, 7, 0, "new")
	systems := []*tool{startJira(f), startServiceNow(f), startOther(f)}
	f.Fuzz(func(t *testing.T, status int, body string) {
		for _, o := range systems {
			p := (&ticketSink{tool: o}).preset()
			look, err := p.ComposeWithMemory([]transform.Event{event}, [][]byte{nil})
			if err != nil {
				t.Fatal(err)
			}
			open, err := p.Compose([]transform.Event{event})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []webhook.Request{look, open} {
				a := webhook.Answer{Status: status, Body: []byte(body)}
				next, err := p.Judge(r, a)
				if err != nil {
					if _, ok := err.(*failure.Error); !ok {
						t.Errorf("%s: %T: %v", o.name, err, err)
					}
					continue
				}
				learnt := p.Remember(r, a)
				if _, err := p.Finish(t.Context(), r, a); err != nil {
					t.Error(err)
				}
				if next == nil && len(learnt) != 1 {
					t.Errorf("%s: nothing is remembered of %s", o.name, body)
				}
				for _, kept := range learnt {
					if next == nil && bytes.Contains(kept, []byte(`"id":""`)) {
						t.Errorf("%s: a ticket without an id is remembered of %s", o.name, body)
					}
				}
			}
		}
	})
}
