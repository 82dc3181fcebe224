package cluster

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/configs"
)

// TestWeightIsFixed fails if the function changes: members of two versions would not
// agree on who should own a shard.
func TestWeightIsFixed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		member string
		shard  int
		want   uint64
	}{
		{"bridge-1", 0, 0xe64508a09675353f}, {"bridge-1", 15, 0x9419e552debd3e12}, {"bridge-2", 3, 0xbd8ad2ea63c70430},
	} {
		if got := weight(c.member, c.shard); got != c.want {
			t.Errorf("weight(%q, %d) = %#x, want %#x", c.member, c.shard, got, c.want)
		}
	}
}

// named returns members with these names.
func named(ids ...string) (members []member) {
	for _, id := range ids {
		members = append(members, member{ID: id})
	}
	return members
}

// loads returns how many shards each member should own.
func loads(ranked [][]member) map[string]int {
	n := make(map[string]int)
	for _, members := range ranked {
		n[members[0].ID]++
	}
	return n
}

// wantEven expects that the members should own all shards, and equally many but for one.
func wantEven(t interface{ Fatalf(string, ...any) }, ranked [][]member, members []member) {
	least, most := len(ranked), 0
	n := loads(ranked)
	for _, m := range members {
		least, most = min(least, n[m.ID]), max(most, n[m.ID])
	}
	if most-least > 1 {
		t.Fatalf("members should own %v", n)
	}
}

// TestSharesAreEven: also without a member, whose shards then go to the second in the order.
func TestSharesAreEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		live := named(rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9-]{1,12}`), 2, 9, rapid.ID[string]).Draw(t, "members")...)
		shards := rapid.IntRange(1, 100).Draw(t, "shards")
		before := rank(live, shards)
		wantEven(t, before, live)
		lost := rapid.SampledFrom(live).Draw(t, "lost").ID
		left := slices.DeleteFunc(slices.Clone(live), func(m member) bool { return m.ID == lost })
		after := rank(left, shards)
		wantEven(t, after, left)
		for shard, members := range before {
			if len(members) != len(live) || len(slices.CompactFunc(slices.SortedFunc(slices.Values(members), byID), equalID)) != len(live) {
				t.Fatalf("the candidates of shard %d are %v", shard, members)
			}
			if members[0].ID == lost && after[shard][0].ID != members[1].ID {
				t.Fatalf("shard %d is followed by %s, and without %s it should be owned by %s", shard, members[1].ID, lost, after[shard][0].ID)
			}
		}
		slices.Reverse(left)
		if again := rank(left, shards); !reflect.DeepEqual(again, after) {
			t.Fatalf("members in another order are ranked differently: %v and %v", again, after)
		}
	})
}

func byID(a, b member) int     { return strings.Compare(a.ID, b.ID) }
func equalID(a, b member) bool { return a.ID == b.ID }

// TestMembersThatCannotOrShouldNotOwn: the others share what they do not get.
func TestMembersThatCannotOrShouldNotOwn(t *testing.T) {
	t.Parallel()
	const shards = 16
	all := make([]int, shards)
	unables := make(map[string]report)
	for shard := range shards {
		all[shard], unables[configs.ShardName(shard)] = shard, unable
	}
	for name, c := range map[string]struct {
		change member // what a is besides its name
		want   map[string]int
	}{
		"a yields all shards":          {member{Yields: all}, map[string]int{"b": 8, "c": 8}},
		"a is unable to own any shard": {member{Shards: unables}, map[string]int{"b": 8, "c": 8}},
		"a yields one shard":           {member{Yields: all[:1]}, map[string]int{"a": 6, "b": 5, "c": 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.change.ID = "a"
			ranked := rank(append(named("b", "c"), c.change), shards)
			if got := loads(ranked); !maps.Equal(got, c.want) {
				t.Errorf("members should own %v, want %v", got, c.want)
			}
			for _, shard := range c.change.Yields {
				if last := ranked[shard][2]; last.ID != "a" {
					t.Errorf("shard %d is yielded by a, and %s goes last", shard, last.ID)
				}
			}
		})
	}
	if ranked := rank([]member{{ID: "a", Yields: all}}, shards); len(ranked[0]) != 1 {
		t.Errorf("a shard that its only member yields has candidates %v", ranked[0])
	}
	if ranked := rank(nil, shards); len(ranked) != shards || ranked[0] != nil {
		t.Errorf("without members the ranking is %v", ranked)
	}
}

// ranked returns the names a, b and c in the order in which they should own shard 0.
func ranked() (first, second, third string) {
	m := rank(named("a", "b", "c"), 1)[0]
	return m[0].ID, m[1].ID, m[2].ID
}

// see returns a view that a member has of live ones with one shard. reports are of that shard.
func see(self string, reports map[string]report, yields ...string) *view {
	var members []observed
	for _, id := range slices.Sorted(maps.Keys(reports)) {
		m := member{ID: id, Instance: "i-" + id}
		if r := reports[id]; r.Role != "" {
			m.Shards = map[string]report{"00": r}
		}
		if slices.Contains(yields, id) {
			m.Yields = []int{0}
		}
		members = append(members, observed{member: m})
	}
	return newView("i-"+self, members, 1)
}

var (
	away    = report{}
	owns    = report{Role: roleOwner}
	follows = report{Role: roleFollower}
	ready   = report{Role: roleFollower, CaughtUp: true}
	unable  = report{Role: roleUnable}
)

func TestTurn(t *testing.T) {
	t.Parallel()
	first, second, third := ranked()
	all := map[string]report{first: away, second: away, third: away}
	for name, c := range map[string]struct {
		self, last string
		reports    map[string]report
		yields     []string
		want       int // -1: no candidate
	}{
		"the first by rendezvous goes at once":                  {first, "", all, nil, 0},
		"the second waits for one":                              {second, "", all, nil, 1},
		"the third waits for two":                               {third, "", all, nil, 2},
		"nobody waits for the last owner":                       {second, "i-" + first, all, nil, 0},
		"the last owner waits for all others":                   {first, "i-" + first, all, nil, 2},
		"an earlier process of the last owner's name is nobody": {second, "earlier", all, nil, 1},
		"nobody waits for a member that is unable":              {second, "", map[string]report{first: unable, second: away}, nil, 0},
		"a member that is unable is no candidate":               {first, "", map[string]report{first: unable, second: away}, nil, -1},
		"a member without its name is no candidate":             {"d", "", all, nil, -1},
		"a member that yields goes last":                        {first, "", all, []string{first}, 2},
		"nobody waits for a member that yields":                 {second, "", all, []string{first}, 0},
		"if all yield the order is that of rendezvous":          {second, "", all, []string{first, second, third}, 1},
		"a member alone goes at once":                           {third, "i-" + third, map[string]report{third: away}, []string{third}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := see(c.self, c.reports, c.yields...).turn(0, c.last)
			if !ok {
				got = -1
			}
			if got != c.want {
				t.Errorf("turn of %s = %d, want %d", c.self, got, c.want)
			}
		})
	}
}

func TestShouldFollow(t *testing.T) {
	t.Parallel()
	first, second, third := ranked()
	const step = time.Second
	for name, c := range map[string]struct {
		self      string
		following bool
		now       time.Duration // since the shard has no owner
		reports   map[string]report
		want      bool
	}{
		"the second follows the first":                       {second, false, 0, map[string]report{first: owns, second: away, third: away}, true},
		"the third does not":                                 {third, false, 0, map[string]report{first: owns, second: away, third: away}, false},
		"the first follows another owner":                    {first, false, 0, map[string]report{first: away, second: owns, third: follows}, true},
		"the follower stays until a better one is there":     {third, true, 0, map[string]report{first: follows, second: owns, third: ready}, true},
		"the follower leaves when a better one is there":     {third, true, 0, map[string]report{first: ready, second: owns, third: ready}, false},
		"a worse follower does not send the better one away": {second, true, 0, map[string]report{first: owns, second: follows, third: ready}, true},
		"the third follows if the second is unable":          {third, false, 0, map[string]report{first: owns, second: unable, third: away}, true},
		"a member that is unable does not follow":            {second, true, 0, map[string]report{first: owns, second: unable, third: away}, false},
		"the owner does not follow":                          {first, false, 0, map[string]report{first: owns, second: away}, false},
		"the first follows a shard without owner at once":    {first, false, 0, map[string]report{first: away, second: away, third: away}, true},
		"the third not yet":                                  {third, false, 2*step - 1, map[string]report{first: away, second: away, third: away}, false},
		"the third after two steps":                          {third, false, 2 * step, map[string]report{first: away, second: away, third: away}, true},
		"without an owner all stay that follow":              {third, true, 0, map[string]report{first: ready, second: ready, third: ready}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := see(c.self, c.reports)
			if _, has := v.owner(0); !has {
				v.unowned[0] = 0
			}
			if got := v.shouldFollow(0, c.following, c.now, step); got != c.want {
				t.Errorf("%s follows: %v, want %v", c.self, got, c.want)
			}
		})
	}
}

func TestRebalance(t *testing.T) {
	t.Parallel()
	first, second, third := ranked()
	for name, c := range map[string]struct {
		self    string
		now     time.Duration // since the members live
		reports map[string]report
		yields  []string
		want    string // "": nobody
	}{
		"to the first by rendezvous":            {second, minUptime, map[string]report{first: ready, second: owns, third: away}, nil, first},
		"only when all have lived":              {second, minUptime - 1, map[string]report{first: ready, second: owns}, nil, ""},
		"only when it has caught up":            {second, minUptime, map[string]report{first: follows, second: owns}, nil, ""},
		"only if it follows":                    {second, minUptime, map[string]report{first: away, second: owns}, nil, ""},
		"not to the second while a first lives": {third, minUptime, map[string]report{first: follows, second: ready, third: owns}, nil, ""},
		"not to one that yields":                {second, minUptime, map[string]report{first: ready, second: owns}, []string{first}, ""},
		"from one that yields":                  {first, minUptime, map[string]report{first: owns, second: ready}, []string{first}, second},
		"only by the owner":                     {third, minUptime, map[string]report{first: ready, second: owns, third: away}, nil, ""},
		"not by the preferred owner":            {first, minUptime, map[string]report{first: owns, second: ready}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := see(c.self, c.reports, c.yields...)
			_, to, _ := v.rebalance(c.now)
			if to.ID != c.want {
				t.Errorf("handed over to %q, want %q", to.ID, c.want)
			}
		})
	}
}

func TestOfTwoOwnersTheLaterCounts(t *testing.T) {
	t.Parallel()
	for _, later := range []string{"a", "b"} {
		reports := map[string]report{"a": owns, "b": owns, "c": away}
		reports[later] = report{Role: roleOwner, Offset: 7}
		if got, _ := see("c", reports).owner(0); got.ID != later {
			t.Errorf("owner is %s, want %s", got.ID, later)
		}
	}
}
