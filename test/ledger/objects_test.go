package ledger_test

import (
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestTheJudgeOfObjectsFindsEachFault(t *testing.T) {
	const source = "ndrbridge://hq/audit"
	history := []ledger.Object{{ID: "1-5", JSON: `{"id":1}`}, {ID: "2-6", JSON: `{"id":2}`}, {ID: "3-6", JSON: `{"id":3}`}}
	first, second, third := history[0], history[1], history[2]
	for _, c := range []struct {
		name       string
		received   []ledger.Object
		duplicates int
		fault      string
	}{
		{"everything is right", history, 0, ""},
		{"a duplicate is counted, also where it comes late", []ledger.Object{first, second, first, third, second}, 2, ""},
		{"an object that is missing", []ledger.Object{first, third}, 0, "did not arrive; one is 2-6"},
		{"nothing at all", nil, 0, "3 objects"},
		{"an object that never was", append([]ledger.Object{{ID: "9-9", JSON: `{}`}}, history...), 0, "never was"},
		{"an object that was changed on the way", []ledger.Object{first, {ID: "2-6", JSON: `{"id":7}`}, third}, 0, "never was"},
		{"an order that nobody promised", []ledger.Object{second, first, third}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := ledger.New()
			for _, o := range c.received {
				e, err := transform.New(transform.Attributes{ID: o.ID, Source: source, Type: "t"}, []byte(`{"audit":`+o.JSON+`}`))
				require.NoError(t, err)
				l.Receive("lake", e)
			}
			verdict := l.JudgeObjects("lake", source, history)
			assert.Equal(t, verdict.Delivered, len(c.received), verdict)
			assert.Equal(t, verdict.Duplicates, c.duplicates, verdict)
			switch {
			case c.fault == "" && len(verdict.Faults) > 0:
				t.Errorf("faults %q, want none", verdict.Faults)
			case c.fault != "" && !strings.Contains(strings.Join(verdict.Faults, "\n"), c.fault):
				t.Errorf("faults %q, want one with %q", verdict.Faults, c.fault)
			}
		})
	}
	t.Run("what arrived from another source is not taken for it", func(t *testing.T) {
		l := ledger.New()
		e, err := transform.New(transform.Attributes{ID: "1-5", Source: "ndrbridge://hq/records/dns", Type: "t"}, []byte(`{"record":{"id":1}}`))
		require.NoError(t, err)
		l.Receive("lake", e)
		missing, _ := l.MissingObjects("lake", source, history)
		assert.Equal(t, missing, 3, "objects are missing")
	})
}
