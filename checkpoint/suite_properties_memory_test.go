package checkpoint_test

import (
	"bytes"
	"context"
	"fmt"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
)

// entries holds the remembered entries of a source or a sink.
func (m *machine) entries(t *rapid.T) (entries []checkpoint.Entry) {
	for range rapid.IntRange(0, 4).Draw(t, "entries") {
		m.count++
		entries = append(entries, checkpoint.Entry{
			Key: modelKey.Draw(t, "key"), Value: fmt.Appendf(nil, "v%d", m.count), At: int64(rapid.IntRange(0, 20).Draw(t, "at")),
		})
	}
	return entries
}

// keep records what an owner remembers, and what may be forgotten now.
func keep[O comparable](all map[O]map[string]knownEntry, owner O, entries []checkpoint.Entry, forgetBefore int64) {
	known := all[owner]
	if known == nil {
		known = map[string]knownEntry{}
		all[owner] = known
	}
	for _, e := range entries {
		known[e.Key] = knownEntry{value: e.Value, at: e.At}
	}
	for key, e := range known {
		if e.at < forgetBefore {
			e.forgotten = true
			known[key] = e
		}
	}
}

// compare checks the entries recalled of an owner.
func compare(t *rapid.T, owner string, known map[string]knownEntry, keys []string, values [][]byte, err error) {
	require.NoError(t, err, "recall of", owner, "keys")
	require.Equal(t, len(values), len(keys), "recall of", owner, "values for")
	for i, key := range keys {
		want := known[key]
		require.True(t, bytes.Equal(values[i], want.value) || values[i] == nil && want.forgotten, key, owner, string(values[i]), string(want.value))
	}
}

func (m *machine) rememberSink(t *rapid.T) {
	sink := rapid.SampledFrom(modelSinks).Draw(t, "sink")
	forgetBefore := int64(rapid.IntRange(0, 20).Draw(t, "forget before"))
	entries := m.entries(t)
	err := m.s.RememberSink(context.Background(), sink, entries, forgetBefore)
	_, known := m.cursors[sink]
	require.Equal(t, err == nil, known, "remember for", sink, err, "it is known")
	if err == nil {
		keep(m.made, sink, entries, forgetBefore)
	}
}

func (m *machine) recallSink(t *rapid.T) {
	sink := rapid.SampledFrom(modelSinks).Draw(t, "sink")
	keys := rapid.SliceOf(modelKey).Draw(t, "keys")
	values, err := m.s.RecallSink(context.Background(), sink, keys)
	compare(t, "sink "+sink, m.made[sink], keys, values, err)
}
