package checkpoint_test

import (
	"fmt"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
)

// sourceKey returns the key under which a sink remembers something about an object that a
// source knows by id.
func sourceKey(source checkpoint.Source, id string) string {
	return "ndrbridge://" + source.String() + "/" + id
}

func (b backend) testMemory(t *testing.T) {
	s := b.state(t, spacious)
	s.configureSinks("a", "detections")
	entry := func(key, value string, at int64) checkpoint.Entry {
		return checkpoint.Entry{Key: key, Value: []byte(value), At: at}
	}
	remember := func(sink string, before int64, entries ...checkpoint.Entry) {
		t.Helper()
		s.must(s.RememberSink(t.Context(), sink, entries, before))
	}
	want := func(sink string, keys []string, values ...string) {
		t.Helper()
		got, err := s.RecallSink(t.Context(), sink, keys)
		var texts []string
		for _, value := range got {
			texts = append(texts, string(value))
		}
		assert.NoError(t, err, sink)
		assert.DeepEqual(t, texts, values, sink, "remembers")
	}
	keys := []string{"x", "none", "y"}

	t.Run("entries that are due are refreshed, and outlive their first time", func(t *testing.T) {
		remember("detections", 0, entry("x", "due", 19), entry("y", "not due", 20))
		s.must(s.RefreshSink(t.Context(), "detections", keys, 50, 20))
		remember("detections", 40)
		want("detections", keys, "due", "", "")
		remember("detections", 60)
		want("detections", keys, "", "", "")
	})
	t.Run("a source with a similar name has its own entries", func(t *testing.T) {
		c := checkpoint.Commit{
			Source: checkpoint.Source{Appliance: "sink", Stream: "a"}, Position: []byte("p"),
			Remember: []checkpoint.Entry{entry("x", "a source's", 1)},
		}
		remember("a", 0, entry("x", "three", 5))
		s.must(s.Commit(t.Context(), c))
		want("a", keys[:1], "three")
	})
	t.Run("invalid entries are refused, and nothing is written", func(t *testing.T) {
		for _, c := range []struct {
			sink  string
			entry checkpoint.Entry
		}{
			{"never configured", entry("x", "one", 1)},
			{"detections", entry("", "one", 1)},
			{"detections", entry("x", "", 1)},
			{"detections", entry("x", "one", -1)},
		} {
			entries := []checkpoint.Entry{entry("good", "one", 1), c.entry}
			assert.Error(t, s.RememberSink(t.Context(), c.sink, entries, 0), c.sink, "may remember", c.entry)
			want(c.sink, []string{"good"}, "")
		}
	})
	t.Run("an entry whose object a source still knows is kept, however old", func(t *testing.T) {
		const day = 24 * 60 * 60 * 1000
		known, unknown := sourceKey(audit, "7"), sourceKey(audit, "8")
		removed := sourceKey(checkpoint.Source{Appliance: "removed", Stream: "audit"}, "7")
		c := checkpoint.Commit{Source: audit, Position: []byte("p1"), Remember: []checkpoint.Entry{entry("7", "a version", 1)}}
		s.must(s.Commit(t.Context(), c))
		remember("detections", 0, entry(known, "T1", 5), entry(unknown, "T2", 5), entry(removed, "T3", 5))
		for at := range 5 {
			remember("detections", int64(10+at*2*day), entry("other", "v", int64(11+at*2*day)))
		}
		want("detections", []string{known, unknown, removed}, "T1", "", "")
		forgets := checkpoint.Commit{Source: audit, Expect: []byte("p1"), Position: []byte("p2"), ForgetBefore: 2}
		s.must(s.Commit(t.Context(), forgets))
		remember("detections", 10+9*day) // it was last kept for a day
		want("detections", []string{known}, "T1")
		remember("detections", 11+9*day)
		want("detections", []string{known}, "")
		remember("detections", 40*day)
	})
	t.Run("many entries are forgotten in several calls", func(t *testing.T) {
		var many []checkpoint.Entry
		for i := range 1000 {
			many = append(many, entry(fmt.Sprintf("k%d", i), "v", 10))
		}
		remember("detections", 0, many...)
		for range 1000/64 + 1 {
			remember("detections", 11, entry("latest", "v", 20))
		}
		want("detections", []string{"k0", "k500", "k999", "latest"}, "", "", "", "v")
	})
}
