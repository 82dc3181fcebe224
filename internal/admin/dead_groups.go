package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ndrbridge/checkpoint"
)

// DeadGroups are dead letters grouped by owner, class and the kind of their reason. Its
// JSON is stable: fields are added, and never change their meaning.
type DeadGroups struct {
	// Groups are sorted by Count, the largest first.
	Groups []DeadGroup `json:"groups"`
	// Total counts the dead letters that were to be grouped, and Ungrouped those of them
	// that are in no group, because there are more dead letters or more kinds of reasons
	// than one request groups.
	Total     uint64 `json:"total"`
	Ungrouped uint64 `json:"ungrouped"`
}

// DeadGroup is a number of dead letters of one owner that have the same class and reasons
// of the same kind.
type DeadGroup struct {
	// The owner is either a sink, or a stream of an appliance.
	Sink      string `json:"sink,omitempty"`
	Appliance string `json:"appliance,omitempty"`
	Stream    string `json:"stream,omitempty"`
	Class     string `json:"class"`
	// Reason is the kind of the reasons, as ReasonKind returns it.
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
	// First and Last are when the oldest and the newest of them were dead-lettered.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Key is the key of the newest, as an example.
	Key string `json:"example_key"`
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

// groupKey is what the dead letters of a group have in common.
type groupKey struct{ owner, class, reason string }

// Add adds a dead letter.
func (g *DeadGrouping) Add(owner checkpoint.Owner, d checkpoint.DeadLetter) {
	added := DeadGroup{Class: d.Class, Reason: ReasonKind(d.Reason), Count: 1, First: d.Time.UTC(), Last: d.Time.UTC(), Key: d.Key}
	if source, ok := owner.Source(); ok {
		added.Appliance, added.Stream = source.Appliance, source.Stream
	} else {
		added.Sink, _ = owner.Sink()
	}
	g.add(added)
}

// AddTotal adds to the number of dead letters that are to be grouped.
func (g *DeadGrouping) AddTotal(n uint64) { g.total += n }

// Merge adds what was grouped elsewhere. prefix precedes the keys.
func (g *DeadGrouping) Merge(other DeadGroups, prefix string) {
	g.total += other.Total
	for _, group := range other.Groups {
		group.Key = prefix + group.Key
		g.add(group)
	}
}

func (g *DeadGrouping) add(added DeadGroup) {
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

// Groups returns what was collected.
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
