package replicated

import (
	"cmp"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
)

func FuzzID(f *testing.F) {
	for _, s := range []string{"a.1.2.3/4", "a.b-c.0.0.1/1", ".1.1.1/1", "a.1.1.2/1", "a.01.1.1/1", "", "a.1.1.1/99999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := parseID(s)
		assert.True(t, !ok || id.String() == s && id.part >= 1 && id.part <= id.parts && id.owner != "", s, "is read as", id)
	})
}

func TestTrail(t *testing.T) {
	for s, want := range map[string]trail{
		"":                 {},
		"a.1.2.1/1":        {id: "a.1.2.1/1"},
		"a.1.2.1/1 c0 7":   {"a.1.2.1/1", Identity{"c0", 7}},
		"a.1.2.1/1 c0":     {id: "a.1.2.1/1"},
		"a.1.2.1/1 c0 x 7": {id: "a.1.2.1/1"},
		"a.1.2.1/1 c0 x":   {id: "a.1.2.1/1"},
	} {
		got := parseTrail(s)
		assert.True(t, got == want && IdentityOf(checkpoint.Point{Trail: s}) == want.Identity, s, "is read as", got, want)
		assert.Equal(t, parseTrail(want.String()), want, "is written as")
	}
}

// FuzzReader feeds messages that nobody wrote.
func FuzzReader(f *testing.F) {
	f.Add("a.1.1.1/1", "take", []byte(`{"format":1}`), "a.1.2.1/1", []byte("\x04\x0cabcd"))
	f.Add("a.1.1.1/2", "record", []byte{}, "a.1.1.2/2", []byte{1})
	f.Fuzz(func(t *testing.T, id, kind string, data []byte, nextID string, next []byte) {
		var r reader
		_, _, _ = r.read(1, Message{ID: id, Kind: kind, Data: data})
		_, complete, err := r.read(2, Message{ID: nextID, Kind: KindRecord, Data: next})
		assert.True(t, !complete || err == nil, "complete, and", err)
	})
}

// TestChainsThatAreNotCompleted reads parts of which no record comes.
func TestChainsThatAreNotCompleted(t *testing.T) {
	for name, messages := range map[string][]Message{
		"the rest of another record": {{ID: "a.1.1.1/2", Kind: KindRenew}, {ID: "a.1.2.2/2", Kind: KindRenew}},
		"a part twice":               {{ID: "a.1.1.1/3", Kind: KindRenew}, {ID: "a.1.1.2/3", Kind: KindRenew}, {ID: "a.1.1.2/3", Kind: KindRenew}, {ID: "a.1.1.3/3", Kind: KindRenew}},
		"a part is missing":          {{ID: "a.1.1.1/3", Kind: KindRenew}, {ID: "a.1.1.3/3", Kind: KindRenew}},
		"no first part":              {{ID: "a.1.1.2/2", Kind: KindRenew}},
		"another kind":               {{ID: "a.1.1.1/2", Kind: KindRenew}, {ID: "a.1.1.2/2", Kind: KindRelease}},
		"another owner between":      {{ID: "a.1.1.1/2", Kind: KindRenew}, {ID: "b.0.1.1/1", Kind: KindRenew}, {ID: "a.1.1.2/2", Kind: KindRenew}},
		"a new owner between":        {{ID: "a.0.1.1/2", Kind: KindRenew}, {ID: "b.1.1.1/2", Kind: KindTake}, {ID: "a.0.1.2/2", Kind: KindRenew}},
	} {
		t.Run(name, func(t *testing.T) {
			var r reader
			for i, m := range messages {
				_, complete, err := r.read(uint64(i+1), m)
				assert.True(t, !complete && err == nil, "message", i+1, "completes a record", complete, err)
			}
			_, complete, err := r.read(9, Message{ID: cmp.Or(r.owner, "a") + ".1.5.1/1", Kind: KindRenew})
			assert.True(t, complete && err == nil, "the next record is not complete", err)
		})
	}
}
