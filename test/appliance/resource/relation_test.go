package resource

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/appliance/rest"
	"ndrbridge/test/require"
)

// everything is a set that contains all ids.
type everything struct{}

func (everything) Has(int64) bool                        { return true }
func (everything) Shown(*rest.Request, []int64) [][]byte { return nil }

func newTestRelation() *Relation {
	return NewRelation(Side{"/alerts", "alert", everything{}}, Side{"/devices", "device", everything{}})
}

// pair is a parent and a child that is assigned to it.
type pair struct{ parent, child int64 }

func TestBothSidesOfARelationAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, model := newTestRelation(), map[pair]bool{}
		id := rapid.Int64Range(1, 4)
		t.Repeat(map[string]func(*rapid.T){
			"assign": func(t *rapid.T) {
				p := pair{id.Draw(t, "parent"), id.Draw(t, "child")}
				l.Assign(p.parent, p.child, true)
				model[p] = true
			},
			"unassign": func(t *rapid.T) {
				p := pair{id.Draw(t, "parent"), id.Draw(t, "child")}
				l.Assign(p.parent, p.child, false)
				delete(model, p)
			},
			"remove a parent": func(t *rapid.T) {
				parent := id.Draw(t, "parent")
				l.RemoveParent(parent)
				for child := range int64(5) {
					delete(model, pair{parent, child})
				}
			},
			"remove a child": func(t *rapid.T) {
				child := id.Draw(t, "child")
				l.RemoveChild(child)
				for parent := range int64(5) {
					delete(model, pair{parent, child})
				}
			},
			"": func(t *rapid.T) {
				for p := range int64(5) {
					var children, parents []int64
					for other := range int64(5) {
						if model[pair{p, other}] {
							children = append(children, other)
						}
						if model[pair{other, p}] {
							parents = append(parents, other)
						}
					}
					got := l.Children(p)
					require.True(t, slices.Equal(got, children), "the children of", p, got, children)
					got = l.Parents(p)
					require.True(t, slices.Equal(got, parents), "the parents of", p, got, parents)
				}
				require.Equal(t, l.pairs, len(model), "assignments are counted")
			},
		})
	})
}
