package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ndrbridge/checkpoint"
)

// DeadGroups are dead letters grouped by owner, class and the kind of their reason.
type DeadGroups struct {
	Groups []DeadGroup `json:"groups"` // at most 500 groups, the largest first
	Total  uint64      `json:"total"`  // how many dead letters there are
	// How many of them are in no group. One request reads at most 100000 dead letters.
	Ungrouped uint64 `json:"ungrouped"`
}

// DeadGroup is a number of dead letters of one owner that have the same class and reasons
// of the same kind.
type DeadGroup struct {
	Sink      string `json:"sink,omitempty"`      // the sink; absent for those of a stream
	Appliance string `json:"appliance,omitempty"` // the appliance; absent for those of a sink
	// The stream of the appliance; absent for those of a sink.
	Stream string `json:"stream,omitempty"`
	Class  string `json:"class"` // the class of the error
	// The reason, with a sign in place of each time, id and number.
	Reason string    `json:"reason"`
	Count  uint64    `json:"count"`       // how many dead letters there are
	First  time.Time `json:"first"`       // when the oldest was rejected
	Last   time.Time `json:"last"`        // when the newest was rejected
	Key    string    `json:"example_key"` // the key of the newest
}

// Owner returns the owner as commands name it: SINK, or APPLIANCE/STREAM.
func (g DeadGroup) Owner() string {
	if g.Sink != "" {
		return g.Sink
	}
	return g.Appliance + "/" + g.Stream
}

// maxDeadGroups is the maximum number of groups in DeadGroups.
const maxDeadGroups = 500

// DeadGrouping collects DeadGroups. The zero value is empty. It holds at most maxDeadGroups
// groups: dead letters that would make one more are left out.
type DeadGrouping struct {
	groups map[groupKey]*DeadGroup
	total  uint64
}

// groupKey identifies a group.
type groupKey struct{ owner, class, reason string }

// Add adds a dead letter.
func (g *DeadGrouping) Add(owner checkpoint.Owner, d checkpoint.DeadLetter) {
	added := DeadGroup{Class: d.Class, Reason: ReasonKind(d.Reason), Count: 1, First: d.Time.UTC(), Last: d.Time.UTC(), Key: d.Key}
	if source, ok := owner.Source(); ok {
		added.Appliance, added.Stream = source.Appliance, source.Stream
	} else {
		added.Sink, _ = owner.Sink()
	}
	key := groupKey{added.Owner(), added.Class, added.Reason}
	group, ok := g.groups[key]
	switch {
	case !ok && len(g.groups) >= maxDeadGroups:
		return
	case !ok:
		if g.groups == nil {
			g.groups = make(map[groupKey]*DeadGroup)
		}
		g.groups[key] = &added
		return
	}
	group.Count += added.Count
	if added.First.Before(group.First) {
		group.First = added.First
	}
	if !added.Last.Before(group.Last) {
		group.Last, group.Key = added.Last, added.Key
	}
}

// AddTotal adds to the number of dead letters that are to be grouped.
func (g *DeadGrouping) AddTotal(n uint64) { g.total += n }

// Groups returns the groups collected so far.
func (g *DeadGrouping) Groups() DeadGroups {
	all := DeadGroups{Groups: []DeadGroup{}, Total: g.total}
	grouped := uint64(0)
	for _, group := range g.groups {
		all.Groups = append(all.Groups, *group)
		grouped += group.Count
	}
	slices.SortFunc(all.Groups, func(a, b DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Owner(), b.Owner()),
			strings.Compare(a.Class, b.Class), strings.Compare(a.Reason, b.Reason))
	})
	// Some may have been dead-lettered after they were counted.
	all.Total = max(all.Total, grouped)
	all.Ungrouped = all.Total - grouped
	return all
}
