package checkpoint_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// commandFor makes a command that was accepted at noon.
func commandFor(appliance, key, subject string) checkpoint.Command {
	return checkpoint.Command{
		Key: key, Appliance: appliance, Subject: subject, Accepted: noon,
		Body: fmt.Appendf(nil, `{"ticket_id":%q}`, subject),
	}
}

func (s *state) accept(commands ...checkpoint.Command) []checkpoint.Acceptance {
	s.t.Helper()
	accepted, err := s.Accept(s.t.Context(), commands)
	s.must(err)
	return accepted
}

// wantCommands checks which commands a filter selects.
func (s *state) wantCommands(f checkpoint.CommandFilter, ids ...uint64) {
	s.t.Helper()
	listed, err := s.Commands(s.t.Context(), f, 0, 1000)
	var got []uint64
	for _, c := range listed {
		got = append(got, c.ID)
	}
	assert.True(s.t, err == nil && slices.Equal(got, ids), f, "selects", got, err, ids)
}

func (b backend) testCommands(t *testing.T) {
	s := b.state(t, checkpoint.Limits{MaxBytes: 1})
	s.accept(commandFor("hq", "", "SEC-1"), commandFor("lab", "", "SEC-2"), commandFor("hq", "", "SEC-1"))

	t.Run("finishing one appends its event, although the journal is full", func(t *testing.T) {
		s.configureSinks("a")
		s.append(event("before", noon, 1000))
		applied := event("applied", noon, 300)
		s.must(s.Finish(t.Context(), checkpoint.Outcome{
			ID: 3, State: checkpoint.CommandApplied, Done: noon.Add(time.Minute), Events: []transform.Event{applied},
			Expect: []checkpoint.Entry{{Key: "7", Value: []byte("what we wrote"), At: 5}},
		}))
		got := s.read(0)
		assert.True(t, len(got) == 2 && got[1].Event.ID == "applied", len(got), "events in the journal")
	})
	t.Run("expected changes are kept until they are dropped, or old", func(t *testing.T) {
		s.must(s.Note(t.Context(), 1, []byte("begun"), []checkpoint.Entry{
			{Key: "8", Value: []byte("soon"), At: 9}, {Key: "9", Value: []byte("old"), At: 1},
		}))
		s.reopen()
		want := func(appliance string, keys ...string) {
			t.Helper()
			entries, err := s.Expected(t.Context(), appliance)
			var got []string
			for _, e := range entries {
				got = append(got, e.Key)
			}
			assert.NoError(t, err, "of", appliance)
			assert.EqualSlices(t, got, keys, "of", appliance, "is expected")
		}
		want("hq", "7", "8", "9")
		want("lab")
		s.must(s.DropExpected(t.Context(), "hq", 2))
		want("hq", "7", "8")
	})
	t.Run("invalid commands are refused, and nothing is written", func(t *testing.T) {
		for _, c := range []checkpoint.Command{
			{Body: []byte("{}")}, {Appliance: "hq"}, {Appliance: "hq", Body: []byte("{}"), Subject: strings.Repeat("x", 40_000)},
		} {
			_, err := s.Accept(t.Context(), []checkpoint.Command{commandFor("hq", "", "x"), c})
			assert.Error(t, err, c, "is accepted")
		}
		assert.Error(t, s.Finish(t.Context(), checkpoint.Outcome{ID: 2, State: checkpoint.CommandPending}), "a command was finished as pending")
		s.wantCommands(checkpoint.CommandFilter{}, 1, 2, 3)
	})
	t.Run("done ones are forgotten in time", func(t *testing.T) {
		s.must(s.Finish(t.Context(), checkpoint.Outcome{ID: 2, State: checkpoint.CommandApplied, Done: noon}))
		s.clock.advance(7 * 24 * time.Hour)
		s.accept(commandFor("hq", "", "SEC-7"))
		s.wantCommands(checkpoint.CommandFilter{}, 1, 2, 3, 4)
		s.clock.advance(time.Millisecond)
		s.accept(commandFor("hq", "", "SEC-8"))
		s.wantCommands(checkpoint.CommandFilter{}, 1, 3, 4, 5)
	})
	t.Run("a wait ends when a command is accepted, or is retried", func(t *testing.T) {
		s.must(s.WaitCommands(t.Context(), 4))
		begin := func() <-chan error {
			ended := make(chan error, 1)
			go func() { ended <- s.WaitCommands(t.Context(), 100) }()
			return ended
		}
		for _, change := range []func(){
			func() { s.accept(commandFor("lab", "", "x")) },
			func() {
				id := s.accept(commandFor("lab", "", "y"))[0].ID
				s.must(s.Finish(t.Context(), checkpoint.Outcome{ID: id, State: checkpoint.CommandRejected, Done: s.clock.Now()}))
				s.must(s.RetryCommand(t.Context(), id))
			},
		} {
			ended := begin()
			for done := false; !done; { // it may not have begun to wait yet
				change()
				select {
				case err := <-ended:
					s.must(err)
					done = true
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
	})
}

func (b backend) testCommandIDs(t *testing.T) {
	s := b.state(t, spacious)
	got := s.accept(commandFor("hq", "k1", "SEC-1"), commandFor("hq", "k1", "SEC-1"), commandFor("lab", "", "SEC-2"))
	s.must(s.Finish(t.Context(), checkpoint.Outcome{ID: 2, State: checkpoint.CommandApplied, Done: noon}))
	s.reopen()
	got = append(got, s.accept(commandFor("hq", "", "SEC-3"))...)
	assert.DeepEqual(t, got, []checkpoint.Acceptance{{ID: 1}, {ID: 1, Duplicate: true}, {ID: 2}, {ID: 3}})
	s.must(s.WaitCommands(t.Context(), 2))
	s.wantCommands(checkpoint.CommandFilter{}, 1, 2, 3)
	s.wantCommands(checkpoint.CommandFilter{State: checkpoint.CommandPending}, 1, 3)
}

func (b backend) testCommandSpace(t *testing.T) {
	s := b.state(t, spacious)
	many := make([]checkpoint.Command, checkpoint.MaxCommands)
	for i := range many {
		many[i] = checkpoint.Command{Appliance: "hq", Body: []byte("{}")}
	}
	many[0].Key = "known"
	s.accept(many...)
	_, err := s.Accept(t.Context(), []checkpoint.Command{commandFor("lab", "", "y")})
	assert.ErrorIs(t, err, checkpoint.ErrCommandsFull)
	got := s.accept(many[0])
	assert.True(t, got[0].Duplicate, "a known command needs no space")
	s.must(s.Finish(t.Context(), checkpoint.Outcome{ID: 1, State: checkpoint.CommandApplied, Done: noon}))
	s.accept(commandFor("lab", "twice", "y"), commandFor("lab", "twice", "y"))
}

// commandModel is the expected state of the commands.
type commandModel struct {
	commands map[uint64]checkpoint.Command
	keys     map[string]uint64
	last     uint64
}

// testCommandProperties makes calls in any order, with crashes between them, and
// compares with a model.
func (b backend) testCommandProperties(t *testing.T) {
	dir, runs := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		s := b.stateAt(rt, filepath.Join(dir, fmt.Sprint(runs)), spacious)
		defer func() { s.Close() }()
		m := commandModel{commands: map[uint64]checkpoint.Command{}, keys: map[string]uint64{}}
		id, subject := rapid.Uint64Range(1, 12), rapid.SampledFrom([]string{"", "SEC-1", "SEC", "SEC\x00000000"})
		rt.Repeat(map[string]func(*rapid.T){
			"accept": func(rt *rapid.T) {
				var commands []checkpoint.Command
				for range rapid.IntRange(1, 3).Draw(rt, "commands") {
					commands = append(commands, commandFor(
						rapid.SampledFrom([]string{"hq", "lab"}).Draw(rt, "appliance"),
						rapid.SampledFrom([]string{"", "k1", "k2", "k3"}).Draw(rt, "key"),
						subject.Draw(rt, "ticket")))
				}
				accepted := s.accept(commands...)
				for i, c := range commands {
					want := checkpoint.Acceptance{ID: m.keys[c.Key], Duplicate: true}
					if c.Key == "" || m.keys[c.Key] == 0 {
						m.last++
						want = checkpoint.Acceptance{ID: m.last}
						c.ID, c.State = m.last, checkpoint.CommandPending
						m.commands[c.ID] = c
						if c.Key != "" {
							m.keys[c.Key] = c.ID
						}
					}
					equal(rt, accepted[i], want)
				}
			},
			"finish": func(rt *rapid.T) {
				o := checkpoint.Outcome{
					ID: id.Draw(rt, "id"), Done: s.clock.Now(), Reason: rapid.SampledFrom([]string{"", "404"}).Draw(rt, "reason"),
					State: rapid.SampledFrom([]checkpoint.CommandState{checkpoint.CommandApplied, checkpoint.CommandRejected}).Draw(rt, "state"),
				}
				err := s.Finish(t.Context(), o)
				command, there := m.commands[o.ID]
				if !there || command.State != checkpoint.CommandPending {
					require.ErrorIs(rt, err, checkpoint.ErrFenced)
					return
				}
				s.must(err)
				command.State, command.Reason, command.Done = o.State, o.Reason, o.Done
				m.commands[o.ID] = command
			},
			"retry": func(rt *rapid.T) {
				n := id.Draw(rt, "id")
				err := s.RetryCommand(t.Context(), n)
				command := m.commands[n]
				if command.State != checkpoint.CommandRejected {
					require.True(rt, err != nil, "it was retried")
					return
				}
				s.must(err)
				command.State, command.Reason, command.Note, command.Done = checkpoint.CommandPending, "", nil, time.Time{}
				m.commands[n] = command
			},
			"note": func(rt *rapid.T) {
				n := id.Draw(rt, "id")
				err := s.Note(t.Context(), n, []byte("note"), nil)
				command, there := m.commands[n]
				if !there || command.State != checkpoint.CommandPending {
					require.ErrorIs(rt, err, checkpoint.ErrFenced)
					return
				}
				s.must(err)
				command.Note = []byte("note")
				m.commands[n] = command
			},
			"drop": func(rt *rapid.T) {
				n := id.Draw(rt, "id")
				dropped, err := s.DropCommands(t.Context(), []uint64{n})
				s.must(err)
				_, there := m.commands[n]
				require.Equal(rt, there, dropped == 1, dropped, "dropped")
				delete(m.keys, m.commands[n].Key)
				delete(m.commands, n)
			},
			"crash": func(rt *rapid.T) {
				crashed := s.crashed()
				s.must(s.Close())
				s = crashed
			},
			"list": func(rt *rapid.T) {
				f := checkpoint.CommandFilter{
					Appliance: rapid.SampledFrom([]string{"", "hq", "lab", "none"}).Draw(rt, "appliance"),
					Subject:   subject.Draw(rt, "ticket"),
					State:     rapid.SampledFrom([]checkpoint.CommandState{"", checkpoint.CommandPending, checkpoint.CommandApplied}).Draw(rt, "state"),
				}
				after, limit := id.Draw(rt, "after")-1, rapid.IntRange(0, 5).Draw(rt, "limit")
				var want []checkpoint.Command
				for n := after + 1; n <= m.last && len(want) < limit; n++ {
					c, there := m.commands[n]
					if there && (f.Appliance == "" || f.Appliance == c.Appliance) && (f.Subject == "" || f.Subject == c.Subject) && (f.State == "" || f.State == c.State) {
						want = append(want, c)
					}
				}
				got, err := s.Commands(t.Context(), f, after, limit)
				s.must(err)
				require.True(rt, reflect.DeepEqual(got, want), f, "behind", after, "selects", got, want)
			},
			"": func(rt *rapid.T) {
				listed, err := s.Commands(t.Context(), checkpoint.CommandFilter{}, 0, 1000)
				s.must(err)
				require.Equal(rt, len(listed), len(m.commands), "commands")
				stats := checkpoint.CommandStats{}
				for _, got := range listed {
					want := m.commands[got.ID]
					require.True(rt, reflect.DeepEqual(got, want), got, want)
					if got.State != checkpoint.CommandPending {
						stats.Done++
						continue
					}
					stats.Pending++
				}
				equal(rt, s.stats().Commands, stats)
			},
		})
	})
}
