package transform_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// withParticipants returns a detection with participants, a JSON value.
func withParticipants(t require.T, participants string) transform.Detection {
	return require.Value(transform.ParseDetection([]byte(`{"id":1,"mod_time":5,"participants":`+participants+`}`), false))(t)
}

// changeOfParticipants returns the change of participants in the event of a version; "" if they did
// not change.
func changeOfParticipants(t require.T, before []byte, after transform.Detection) (change string) {
	e := require.Value(encoder.Detection(after, transform.Observation{Before: before, Repeat: 1, Recorded: recorded}))(t)
	var data struct {
		Changes map[string]jsontext.Value
	}
	require.NoError(t, json.Unmarshal(e.Data(), &data), string(e.Data()))
	for name, value := range data.Changes {
		require.Equal(t, name, "participants", "a change")
		change = string(value)
	}
	return change
}

func TestChangesNameTheParticipantsThatDiffer(t *testing.T) {
	const ana = `{"id":18446744073709551615,"role":"offender","object_type":"device","object_id":5,"username":"ana"}`
	const host = `{"id":2,"role":"victim","object_value":"10.0.0.2","external":false,"usernames":["a","b"]}`
	large := `{"id":3,"role":"victim","more":"` + strings.Repeat("x", 1<<10) + `"}`
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing", `[` + ana + `,` + host + `]`, `[` + ana + `,` + host + `]`, ``},
		{"nothing in another order", `[` + ana + `,` + host + `]`, `[` + host + `,` + ana + `]`, ``},
		{"nothing but a host name, and what is not documented", `[{"id":2,"hostname":null}]`, `[{"new":1,"hostname":"b","id":2}]`, ``},
		{"nothing but how it is written", `[` + host + `]`, `[{"usernames" : [ "a" , "b" ], "origins":[], "username":"", "object_value":"10.0.0.2", "role":"victim", "object_type":null, "id":"2"}]`, ``},
		{"one is added", `[` + host + `]`, `[` + ana + `,` + host + `]`, `{"from":1,"to":2,"added":[` + ana + `]}`},
		{"the first ones are added", `null`, `[` + ana + `]`, `{"from":null,"to":1,"added":[` + ana + `]}`},
		{"one is removed", `[` + ana + `,` + host + `]`, `[` + host + `]`, `{"from":2,"to":1,"removed":[{"id":18446744073709551615}]}`},
		{"all are removed", `[` + ana + `]`, `{}`, `{"from":1,"to":0,"removed":[{"id":18446744073709551615}]}`},
		{"one is replaced", `[` + ana + `]`, `[` + host + `]`, `{"from":1,"to":1,"added":[` + host + `],"removed":[{"id":18446744073709551615}]}`},
		{"one has changed", `[{"id":2,"role":"victim"},` + ana + `]`, `[` + ana + `,` + host + `]`, `{"from":2,"to":2,"changed":[` + host + `]}`},
		{"a large one is named by its id", `[{"id":3}]`, `[` + large + `,` + strings.Replace(large, `"id":3,`, ``, 1) + `]`,
			`{"from":1,"to":2,"added":[{"id":null}],"changed":[{"id":3}]}`},
		{"those without an id are known by their fields", `[{"role":"victim"},{"role":"offender"},{"id":"a"},7]`, `[{"role":"victim"},{"role":"x"},8]`,
			`{"from":4,"to":3,"added":[{"role":"x"},8],"removed":[{"id":null},{"id":null},{"id":null}]}`},
		{"those with one id are counted", `[{"id":2},{"id":2}]`, `[{"id":2},{"id":2,"role":"x"},{"id":2,"role":"y"}]`,
			`{"from":2,"to":3,"added":[{"id":2,"role":"y"}],"changed":[{"id":2,"role":"x"}]}`},
		{"ids are compared as numbers", `[{"id":"2"},{"id":2.5}]`, `[{"id":2,"role":"x"},{"id":3.5}]`,
			`{"from":2,"to":2,"added":[{"id":3.5}],"removed":[{"id":null}],"changed":[{"id":2,"role":"x"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := withParticipants(t, c.before).Digested(), withParticipants(t, c.after)
			assert.Equal(t, changeOfParticipants(t, before.Tracked, after), c.want)
			assert.Equal(t, transform.SameTracked(before.Tracked, after.Digested().Tracked), c.want == "", "same")
			assert.Equal(t, string(transform.FieldsOf(before.Tracked)), string(transform.FieldsOf(withParticipants(t, c.before).Tracked)), "fields")
		})
	}
}

func TestOneModTimeComparesParticipantsByTheirNumber(t *testing.T) {
	known := withParticipants(t, `[{"id":1,"role":"offender"}]`).Digested().Tracked
	for participants, same := range map[string]bool{`[{"id":1,"role":"offender"}]`: true, `[{"id":2}]`: true, `[]`: false} {
		again := withParticipants(t, participants).Tracked
		assert.True(t, transform.SameTracked(known, again) == same && transform.SameTracked(again, known) == same, participants, "is the same")
	}
	// A text that looks like digests is none.
	other := []byte(`{"title":"a","type":{"digests":1},"list":2}`)
	assert.True(t, !transform.SameTracked([]byte(`{"title":"a"}`), other), "another type is the same")
}

func TestOfManyParticipantsOnlyTheNumberIsKnown(t *testing.T) {
	crowd := func(n int, role string) string {
		all := []string{`{"id":0,"role":"` + role + `"}`}
		for id := range n - 1 {
			all = append(all, fmt.Sprintf(`{"id":%d}`, 25769803776+id))
		}
		return `[` + strings.Join(all, ",") + `]`
	}
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing", crowd(5000, "x"), crowd(5000, "x"), ``},
		{"one is added", crowd(5000, "x"), crowd(5001, "x"), `{"from":5000,"to":5001,"truncated":true}`},
		{"one has changed", crowd(5000, "x"), crowd(5000, "y"), `{"from":5000,"to":5000,"truncated":true}`},
		{"most are removed", crowd(5000, "x"), crowd(1, "x"), `{"from":5000,"to":1,"truncated":true}`},
		{"many are added", crowd(1, "x"), crowd(5000, "x"), `{"from":1,"to":5000,"truncated":true}`},
		{"few of a hundred", crowd(100, "x"), crowd(101, "y"), `{"from":100,"to":101,"added":[{"id":25769803875}],"changed":[{"id":0,"role":"y"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := withParticipants(t, c.before).Digested().Tracked
			assert.True(t, len(before) < 5<<10 && string(transform.BoundTracked(before)) == string(before), len(before), "bytes are remembered")
			assert.Equal(t, changeOfParticipants(t, before, withParticipants(t, c.after)), c.want)
		})
	}
}

func TestTheChangesOfParticipantsAreRedacted(t *testing.T) {
	before := withParticipants(t, `[{"id":1,"username":"ana"},{"id":2,"username":"bo"}]`).Digested().Tracked
	e := require.Value(encoder.Detection(withParticipants(t, `[{"id":1,"username":"cy"},{"id":3,"username":"di"}]`),
		transform.Observation{Before: before, Repeat: 1, Recorded: recorded}))(t)
	for path, want := range map[string]string{
		"detection.participants.username": `{"participants":{"from":2,"to":2,"added":[{"id":3}],"removed":[{"id":2}],"changed":[{"id":1}]}}`,
		"detection.participants.id":       `{"participants":{"from":2,"to":2,"added":[{"username":"di"}],"removed":[{}],"changed":[{"username":"cy"}]}}`,
		"detection.participants":          `{}`,
	} {
		r := require.Value(transform.ParseRedaction([]string{path}))(t)
		for name, value := range jsonscan.Members(require.Value(r.Apply(e))(t).Data()) {
			assert.True(t, string(name) != "changes" || string(value) == want, path, string(name), string(value))
		}
	}
}

// aParticipant is a participant in the test of all changes.
type aParticipant struct {
	ID       *uint64 `json:"id"`
	Role     string  `json:"role,omitempty"`
	Username string  `json:"username,omitempty"`
}

func (p aParticipant) String() string { return string(must(json.Marshal(p))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestTheChangesOfParticipantsLeadFromOneVersionToTheNext(t *testing.T) {
	generator := rapid.Custom(func(t *rapid.T) aParticipant {
		return aParticipant{
			ID:       rapid.Ptr(rapid.Uint64Range(1<<63, 1<<63+6), true).Draw(t, "id"),
			Role:     rapid.SampledFrom([]string{"", "offender", "victim"}).Draw(t, "role"),
			Username: rapid.SampledFrom([]string{"", "ana", "7"}).Draw(t, "username"),
		}
	})
	all := rapid.Custom(func(t *rapid.T) []aParticipant {
		var distinct []aParticipant
		for _, p := range rapid.SliceOfN(generator, 0, 8).Draw(t, "participants") {
			if p.ID == nil || !slices.ContainsFunc(distinct, func(o aParticipant) bool { return o.ID != nil && *o.ID == *p.ID }) {
				distinct = append(distinct, p)
			}
		}
		return distinct
	})
	// index returns the index of a participant with an id, or -1.
	index := func(of []aParticipant, p aParticipant) int {
		return slices.IndexFunc(of, func(o aParticipant) bool { return o.ID != nil && *o.ID == *p.ID })
	}
	count := func(of []aParticipant, p aParticipant) (n int) {
		for _, o := range of {
			if o.String() == p.String() {
				n++
			}
		}
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		before, after := all.Draw(t, "before"), all.Draw(t, "after")
		of := func(all []aParticipant) transform.Detection {
			return withParticipants(t, string(must(json.Marshal(all))))
		}
		text := changeOfParticipants(t, of(before).Digested().Tracked, of(after))
		var change struct{ Added, Removed, Changed []aParticipant }
		if text != "" {
			require.NoError(t, json.Unmarshal([]byte(text), &change))
		}
		now := slices.Clone(before)
		for _, p := range change.Changed {
			now[index(now, p)] = p
		}
		for _, p := range change.Removed {
			var i int
			if p.ID != nil {
				i = index(now, p)
			} else { // one of those that the later version has not
				i = slices.IndexFunc(now, func(o aParticipant) bool { return o.ID == nil && count(now, o) > count(after, o) })
			}
			now = slices.Delete(now, i, i+1)
		}
		now = append(now, change.Added...)
		sorted := func(all []aParticipant) string {
			var texts []string
			for _, p := range all {
				texts = append(texts, p.String())
			}
			slices.Sort(texts)
			return strings.Join(texts, " ")
		}
		require.Equal(t, sorted(now), sorted(after), "from", sorted(before), "by", text)
	})
}
