package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWeightIsFixed fails if the function changes: members of two versions would not
// agree on who is to own a shard.
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

func TestEveryMemberGetsShards(t *testing.T) {
	t.Parallel()
	const shards = 64
	count := make(map[string]int)
	for shard := range shards {
		members := []member{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}
		count[rank(members, shard)[0].ID]++
	}
	for id, n := range count {
		if n < shards/8 || n > shards/2 {
			t.Errorf("%s gets %d of %d shards", id, n, shards)
		}
	}
	if len(count) != 4 {
		t.Errorf("shards went to %v, want four members", count)
	}
}

// TestMembershipMovesFewShards: a member that joins takes shards, and moves none between
// the others; one that leaves likewise.
func TestMembershipMovesFewShards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9-]{1,12}`), 2, 9, rapid.ID[string]).Draw(t, "members")
		shard := rapid.IntRange(0, 63).Draw(t, "shard")
		all := make([]member, len(ids))
		for i, id := range ids {
			all[i].ID = id
		}
		first := rank(slices.Clone(all), shard)[0].ID
		gone := rapid.IntRange(0, len(all)-1).Draw(t, "gone")
		without := rank(slices.Delete(slices.Clone(all), gone, gone+1), shard)[0].ID
		if ids[gone] != first && without != first {
			t.Fatalf("shard %d moved from %s to %s because %s left", shard, first, without, ids[gone])
		}
	})
}

// ranked returns the names a, b and c in the order in which they are to own shard 0.
func ranked() (first, second, third string) {
	m := rank([]member{{ID: "a"}, {ID: "b"}, {ID: "c"}}, 0)
	return m[0].ID, m[1].ID, m[2].ID
}

// see returns a view that a member has of live ones with one shard. reports are of that shard.
func see(self string, reports map[string]report, yields ...string) *view {
	var members []sighting
	for _, id := range slices.Sorted(func(yield func(string) bool) {
		for id := range reports {
			if !yield(id) {
				return
			}
		}
	}) {
		m := member{ID: id, Instance: "i-" + id}
		if r := reports[id]; r.Role != "" {
			m.Shards = map[string]report{"00": r}
		}
		if slices.Contains(yields, id) {
			m.Yields = []int{0}
		}
		members = append(members, sighting{member: m})
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
	const settled = 30 * time.Second
	for name, c := range map[string]struct {
		self    string
		now     time.Duration // since the members live
		reports map[string]report
		yields  []string
		want    string // "": nobody
	}{
		"to the first by rendezvous":            {second, settled, map[string]report{first: ready, second: owns, third: away}, nil, first},
		"only when it has lived":                {second, settled - 1, map[string]report{first: ready, second: owns}, nil, ""},
		"only when it has caught up":            {second, settled, map[string]report{first: follows, second: owns}, nil, ""},
		"only if it follows":                    {second, settled, map[string]report{first: away, second: owns}, nil, ""},
		"not to the second while a first lives": {third, settled, map[string]report{first: follows, second: ready, third: owns}, nil, ""},
		"not to one that yields":                {second, settled, map[string]report{first: ready, second: owns}, []string{first}, ""},
		"from one that yields":                  {first, settled, map[string]report{first: owns, second: ready}, []string{first}, second},
		"only by the owner":                     {third, settled, map[string]report{first: ready, second: owns, third: away}, nil, ""},
		"not by the one that is to own it":      {first, settled, map[string]report{first: owns, second: ready}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := see(c.self, c.reports, c.yields...)
			_, to, _ := v.rebalance(c.now, settled)
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

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"bridge-1": true, "bridge_2": true, "bridge_2.example.org": false, "B": true,
		"": false, "a b": false, "a*": false, "a>": false, "ä": false, "a/b": false,
		fmt.Sprintf("%065d", 0): false, fmt.Sprintf("%064d", 0): true,
	} {
		if got := validName(name); got != want {
			t.Errorf("validName(%q) = %v", name, got)
		}
	}
}
