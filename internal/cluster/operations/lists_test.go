package operations_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/test/require"
)

// Whatever is done, the dead letters of a cluster are those of one shard that has them all
// under their prefixed keys.
func TestDeadLettersAreThoseOfOneShard(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, model := newCluster(rapid.IntRange(1, 4).Draw(rt, "shards")), newShard(0, 1)
		control, single := c.control(t), model.client()
		owners := []admin.OfDead{{Sink: "lake"}, {Sink: "nowhere"}}
		for _, name := range c.appliances() {
			owners = append(owners, admin.OfDead{Appliance: name, Stream: "audit"})
		}
		keys := rapid.SampledFrom([]string{"", "0", "00", "00-", "00-a", "00-b/c", "01-", "01-a", "02-a", "03-b/c", "1", "99-a", "a", "x-y"})
		owner := rapid.SampledFrom(owners)
		same := func(rt *rapid.T, got, want any, err, wantErr error) {
			if err == nil && !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) || errors.Is(err, admin.ErrUnknown) != errors.Is(wantErr, admin.ErrUnknown) {
				rt.Fatalf("%v (%v), want %v (%v)", got, err, want, wantErr)
			}
		}
		selection := func(rt *rapid.T) []string {
			if rapid.Bool().Draw(rt, "all") {
				return nil
			}
			return rapid.SliceOfN(keys, 0, 4).Draw(rt, "keys")
		}
		ctx := t.Context()
		rt.Repeat(map[string]func(*rapid.T){
			"dead-letter": func(rt *rapid.T) {
				o := owner.Draw(rt, "owner")
				n := rapid.IntRange(0, c.Count()-1).Draw(rt, "shard")
				if o.Sink == "" {
					n = slices.Index(owners, o) - 2
				}
				key := rapid.SampledFrom([]string{"a", "b/c", "00000000000000000007"}).Draw(rt, "key")
				c.shards[n].addDead(o.Owner(), key)
				model.addDead(o.Owner(), fmt.Sprintf("%02d-%s", n, key))
			},
			"list": func(rt *rapid.T) {
				o, after, limit := owner.Draw(rt, "owner"), keys.Draw(rt, "after"), rapid.IntRange(1, 5).Draw(rt, "limit")
				got, err := admin.API.ListDeadLetters.Call(ctx, control, admin.DeadRequest{OfDead: o, After: after, Limit: limit, Bodies: true})
				want, wantErr := admin.API.ListDeadLetters.Call(ctx, single, admin.DeadRequest{OfDead: o, After: after, Limit: limit, Bodies: true})
				if wantErr != nil && err == nil && len(got.DeadLetters) == 0 {
					return // an unknown sink has no dead letters behind the last shard
				}
				same(rt, got, want, err, wantErr)
			},
			"group": func(rt *rapid.T) {
				o := rapid.SampledFrom(append([]admin.OfDead{{}}, owners...)).Draw(rt, "owner")
				got, err := admin.API.GroupDeadLetters.Call(ctx, control, admin.GroupsRequest{OfDead: o})
				want, wantErr := admin.API.GroupDeadLetters.Call(ctx, single, admin.GroupsRequest{OfDead: o})
				for _, groups := range [][]admin.DeadGroup{got.Groups, want.Groups} {
					for i := range groups {
						groups[i].Key = "" // all are equally new
					}
				}
				same(rt, got, want, err, wantErr)
			},
			"show": func(rt *rapid.T) {
				o, key := owner.Draw(rt, "owner"), keys.Draw(rt, "key")
				got, err := admin.API.GetDeadLetter.Call(ctx, control, admin.OfDeadLetter{OfDead: o, Key: key})
				want, wantErr := admin.API.GetDeadLetter.Call(ctx, single, admin.OfDeadLetter{OfDead: o, Key: key})
				same(rt, got, want, err, wantErr)
			},
			"drop": func(rt *rapid.T) {
				o, keys := owner.Draw(rt, "owner"), selection(rt)
				got, err := admin.API.DropDeadLetters.Call(ctx, control, admin.Selection{OfDead: o, Keys: slices.Clone(keys), All: keys == nil})
				want, wantErr := admin.API.DropDeadLetters.Call(ctx, single, admin.Selection{OfDead: o, Keys: keys, All: keys == nil})
				same(rt, got, want, err, wantErr)
			},
			"requeue": func(rt *rapid.T) {
				sink, keys := rapid.SampledFrom([]string{"lake", "nowhere"}).Draw(rt, "sink"), selection(rt)
				got, err := admin.API.RequeueDeadLetters.Call(ctx, control, admin.Selection{OfDead: admin.OfDead{Sink: sink}, Keys: slices.Clone(keys), All: keys == nil})
				want, wantErr := admin.API.RequeueDeadLetters.Call(ctx, single, admin.Selection{OfDead: admin.OfDead{Sink: sink}, Keys: keys, All: keys == nil})
				same(rt, got, want, err, wantErr)
			},
		})
	})
}

func TestDeadLettersOfAnUnavailableShard(t *testing.T) {
	c := newCluster(3)
	control := c.control(t)
	lake := checkpoint.SinkOwner("lake")
	for _, s := range c.shards {
		s.addDead(lake, "a")
		s.addDead(lake, "b")
	}
	c.shards[1].fail(errDown)
	ctx := t.Context()
	if _, err := admin.API.ListDeadLetters.Call(ctx, control, admin.DeadRequest{OfDead: admin.OfDead{Sink: "lake"}, Limit: 3}); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable: the page would have a gap", err)
	} else {
		check(t, err, "shard 01: no member owns it")
	}
	_, err := admin.API.GroupDeadLetters.Call(ctx, control, admin.GroupsRequest{})
	check(t, err, "shard 01: no member owns it")
	if page, err := admin.API.ListDeadLetters.Call(ctx, control, admin.DeadRequest{OfDead: admin.OfDead{Sink: "lake"}, After: "02-a", Limit: 3}); err != nil || len(page.DeadLetters) != 1 {
		t.Errorf("%v (%v), want one of shard 02", page, err)
	}
	n, err := admin.API.RequeueDeadLetters.Call(ctx, control, admin.Selection{OfDead: admin.OfDead{Sink: "lake"}, All: true})
	if n.N != 4 || !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("%d requeued (%v), want 4 and ErrUnavailable", n, err)
	}
	check(t, err, "shard 01: no member owns it: not available now; try again in a few seconds; 2 other shards are done: repeat it")
	if _, err := admin.API.DropDeadLetters.Call(ctx, control, admin.Selection{OfDead: admin.OfDead{Sink: "lake"}, Keys: []string{"00-a"}}); err != nil {
		t.Errorf("%v: the shard of the key is available", err)
	}
}

func TestCommandsAreMergedByID(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster(rapid.IntRange(1, 5).Draw(rt, "shards"))
		control := c.control(t)
		var all []uint64
		for n, s := range c.shards {
			for range rapid.IntRange(0, 500).Draw(rt, "commands") {
				all = append(all, s.accept(checkpoint.Command{Appliance: c.applianceIn(n), Subject: "T"})[0].ID)
			}
		}
		slices.Sort(all)
		limit := rapid.IntRange(1, 600).Draw(rt, "limit")
		var got []uint64
		for after := uint64(0); ; {
			page, err := admin.API.ListTicketCommands.Call(t.Context(), control, admin.CommandsRequest{After: after, Limit: limit})
			require.NoError(rt, err)
			for _, command := range page.Commands {
				got = append(got, command.ID)
			}
			if len(page.Commands) > limit {
				rt.Fatalf("%d commands, want at most %d", len(page.Commands), limit)
			}
			if after = page.Next; after == 0 {
				break
			}
		}
		if !slices.Equal(got, all) {
			rt.Fatalf("%v, want %v", got, all)
		}
	})
}

func TestCommandsOfAnUnavailableShard(t *testing.T) {
	c := newCluster(3)
	control := c.control(t)
	for n, s := range c.shards {
		s.accept(checkpoint.Command{Appliance: c.applianceIn(n)})
	}
	c.shards[1].fail(errDown)
	ctx := t.Context()
	_, err := admin.API.ListTicketCommands.Call(ctx, control, admin.CommandsRequest{Limit: 10})
	check(t, err, "shard 01: no member owns it")
	page, err := admin.API.ListTicketCommands.Call(ctx, control, admin.CommandsRequest{Appliance: c.applianceIn(2), Limit: 10})
	if err != nil || len(page.Commands) != 1 || page.Commands[0].ID != 2 {
		t.Errorf("%v (%v), want that of shard 02", page, err)
	}
	command, err := admin.API.GetTicketCommand.Call(ctx, control, admin.OfCommand{ID: 2})
	if err != nil || command.Appliance != c.applianceIn(2) {
		t.Errorf("%v (%v)", command, err)
	}
	check(t, admin.API.RetryTicketCommand.Do(ctx, control, admin.OfCommand{ID: 1}), "shard 01: no member owns it")
	check(t, admin.API.DropTicketCommand.Do(ctx, control, admin.OfCommand{ID: 2}), "")
	if _, err := admin.API.GetTicketCommand.Call(ctx, control, admin.OfCommand{ID: 2}); !errors.Is(err, admin.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
}

func TestOperationsOnAllShards(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct {
		name string
		do   func(*admin.Client) error
	}{
		{"pause", func(c *admin.Client) error { return admin.API.PauseSink.Do(ctx, c, admin.OfSink{Sink: "lake"}) }},
		{"resume", func(c *admin.Client) error { return admin.API.ResumeSink.Do(ctx, c, admin.OfSink{Sink: "lake"}) }},
		{"replay", func(c *admin.Client) error {
			n, err := admin.API.ReplayEvents.Call(ctx, c, admin.ReplayRequest{OfSink: admin.OfSink{Sink: "lake"}, Replay: admin.Replay{Since: time.Unix(0, 0)}})
			if err == nil && n.Events != 12 {
				err = fmt.Errorf("%d replayed, want 12", n.Events)
			}
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(4)
			control := c.control(t)
			for n, s := range c.shards {
				s.replayed = uint64(2 * n)
			}
			check(t, test.do(control), "")
			delete(c.shards[0].paused, "lake") // it does not know the sink, which is no failure
			check(t, test.do(control), "")
			c.shards[2].fail(errDown)
			c.shards[3].fail(errors.New("the disk is full"))
			err := test.do(control)
			check(t, err, "shard 02: no member owns it: not available now; try again in a few seconds; shard 03: the disk is full; 1 other shard is done: repeat it")
			if !errors.Is(err, admin.ErrUnavailable) {
				t.Errorf("%v, want ErrUnavailable", err)
			}
			for _, s := range c.shards {
				s.fail(nil)
				delete(s.paused, "lake")
			}
			if err := test.do(control); !errors.Is(err, admin.ErrUnknown) {
				t.Errorf("%v, want ErrUnknown", err)
			}
		})
	}
}

func TestOperationsOnOneShard(t *testing.T) {
	c := newCluster(4)
	control := c.control(t)
	ctx := t.Context()
	name := c.applianceIn(2)
	source := checkpoint.Source{Appliance: name, Stream: "audit"}
	check(t, admin.API.Rewind.Do(ctx, control, admin.RewindRequest{Appliance: source.Appliance, Stream: source.Stream, To: time.Unix(0, 0)}), "")
	for n, s := range c.shards {
		if (s.rewound == source) != (n == 2) {
			t.Errorf("shard %d rewound %v", n, s.rewound)
		}
		if n != 2 {
			s.fail(errDown)
		}
	}
	_, err := control.Verify(ctx, name, time.Unix(0, 0), noReport)
	check(t, err, "")
	_, err = control.Verify(ctx, c.applianceIn(1), time.Unix(0, 0), noReport)
	check(t, err, "shard 01: no member owns it")
	if _, err := control.Verify(ctx, "nowhere", time.Unix(0, 0), noReport); !errors.Is(err, admin.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
	d, err := admin.API.GetDetection.Call(ctx, control, admin.DetectionRequest{Appliance: name, ID: 4711})
	check(t, err, "")
	if to := d.Versions[0].Sinks; to[0].Key != "02-7" || to[1].Key != "" || d.ID != 4711 {
		t.Errorf("%+v, want the key of the shard's dead letter", d)
	}
	_, err = admin.API.GetDetection.Call(ctx, control, admin.DetectionRequest{Appliance: c.applianceIn(1), ID: 4711})
	check(t, err, "shard 01: no member owns it")
	if _, err := admin.API.GetDetection.Call(ctx, control, admin.DetectionRequest{Appliance: "nowhere", ID: 4711}); !errors.Is(err, admin.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
	if err := admin.API.Rewind.Do(ctx, control, admin.RewindRequest{Appliance: "nowhere", To: time.Unix(0, 0)}); !errors.Is(err, admin.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
}

func TestMaintenance(t *testing.T) {
	for _, where := range []string{"shards of this member", "shards of other members"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			c := newCluster(3)
			if where == "shards of other members" {
				c.remotely(t)
			}
			control, ctx := c.control(t), t.Context()
			delete(c.shards[1].paused, "lake")
			c.shards[2].fail(errors.New("the disk is full"))
			check(t, admin.API.RenameSink.Do(ctx, control, admin.RenameRequest{OfSink: admin.OfSink{Sink: "lake"}, To: "sea"}), "shard 02: the disk is full; 1 other shard is done: repeat it")
			c.shards[2].fail(nil)
			check(t, admin.API.RenameSink.Do(ctx, control, admin.RenameRequest{OfSink: admin.OfSink{Sink: "lake"}, To: "sea"}), "")
			if _, ok := c.shards[2].paused["sea"]; !ok {
				t.Error("not renamed")
			}
			check(t, admin.API.ForgetSink.Do(ctx, control, admin.OfSink{Sink: "sea"}), "")
			if err := admin.API.ForgetSink.Do(ctx, control, admin.OfSink{Sink: "sea"}); !errors.Is(err, admin.ErrUnknown) {
				t.Errorf("%v, want ErrUnknown", err)
			}
			name := c.applianceIn(2)
			check(t, admin.API.ForgetAppliance.Do(ctx, control, admin.ForgetRequest{Appliance: name}), "")
			check(t, admin.API.ForgetAppliance.Do(ctx, control, admin.ForgetRequest{Appliance: name, Identity: true}), "")
			if want := []string{name, "identity of " + name}; !slices.Equal(c.shards[2].forgotten, want) || len(c.shards[0].forgotten) > 0 {
				t.Errorf("%q, want %q", c.shards[2].forgotten, want)
			}
		})
	}
}
