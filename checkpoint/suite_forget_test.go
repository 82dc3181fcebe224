package checkpoint_test

import (
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func (b backend) testForgettingAppliances(t *testing.T) {
	own := checkpoint.Source{Appliance: "hq", Stream: transform.StreamEvents}
	other := checkpoint.Source{Appliance: "hq2", Stream: transform.StreamDetections}
	entry := func(key string) checkpoint.Entry { return checkpoint.Entry{Key: key, Value: []byte("v"), At: 1} }
	// known returns a state with something of every kind of hq and of hq2.
	known := func(t *testing.T) *state {
		s := b.state(t, spacious)
		s.configureSinks("a")
		for _, source := range []checkpoint.Source{detections, audit, own, other} {
			c := checkpoint.Commit{Source: source, Position: []byte("p"), Events: events(1, 300)}
			if source != own {
				c.Remember = []checkpoint.Entry{entry("7")}
				c.Dead = []checkpoint.DeadLetter{{Key: "k", Class: "invalid", Time: noon, Body: []byte("{}")}}
			}
			s.must(s.Commit(t.Context(), c))
		}
		s.must(s.RememberSink(t.Context(), "a", []checkpoint.Entry{entry(sourceKey(detections, "7")), entry(sourceKey(other, "7"))}, 0))
		return s
	}
	forget := func(s *state, want bool) {
		s.t.Helper()
		found, err := s.ForgetAppliance(t.Context(), "hq")
		assert.True(s.t, err == nil && found == want, "found", found, err, want)
	}
	remembered := func(s *state, source checkpoint.Source) bool {
		values, err := s.RecallSink(t.Context(), "a", []string{sourceKey(source, "7")})
		s.must(err)
		return values[0] != nil
	}
	t.Run("its streams begin again, and nothing about it is remembered", func(t *testing.T) {
		s := known(t)
		s.accept(commandFor("hq", "", "SEC-1"))
		s.must(s.Finish(t.Context(), checkpoint.Outcome{
			ID: 1, State: checkpoint.CommandApplied, Done: noon, Expect: []checkpoint.Entry{entry("7")},
		}))
		forget(s, true)
		s.reopen()
		for _, source := range []checkpoint.Source{detections, audit} {
			assert.True(t, s.position(source) == nil, source, "has a position")
			s.wantRecall(source, map[string]string{"7": ""})
		}
		assert.False(t, remembered(s, detections), "a sink remembers something of it")
		assert.Empty(t, require.Value(s.Expected(t.Context(), "hq"))(t), "is expected")
		s.must(s.Commit(t.Context(), checkpoint.Commit{Source: detections, Position: []byte("new"), Remember: []checkpoint.Entry{entry("7")}, ForgetBefore: 2}))
		s.must(s.RememberSink(t.Context(), "a", []checkpoint.Entry{{Key: sourceKey(detections, "7"), Value: []byte("w"), At: 9}}, 2))
	})
	t.Run("events, dead letters, the position of the events about it, and another appliance stay", func(t *testing.T) {
		s := known(t)
		forget(s, true)
		got := s.stats()
		assert.True(t, got.Events == 4 && got.DeadLetters[checkpoint.SourceOwner(detections)].Count == 1, got, "want 4 events and a dead letter of each source")
		assert.True(t, s.position(own) != nil && s.position(other) != nil && remembered(s, other), "something that does not belong to its streams was dropped")
		s.wantRecall(other, map[string]string{"7": "v"})
	})
	t.Run("an unknown appliance is not found", func(t *testing.T) {
		s := b.state(t, spacious)
		forget(s, false)
	})
	t.Run("an appliance with pending commands cannot be forgotten", func(t *testing.T) {
		s := known(t)
		s.accept(commandFor("hq", "", "SEC-1"), commandFor("hq2", "", "SEC-1"))
		if _, err := s.ForgetAppliance(t.Context(), "hq"); err == nil || s.position(detections) == nil {
			t.Errorf("it was forgotten, %v", err)
		}
		_, err := s.DropCommands(t.Context(), []uint64{1})
		s.must(err)
		forget(s, true)
	})
}
