package poller

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestWhatIsKnownOfADetectionIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := known{
			modTime: rapid.Int64().Draw(rt, "mod_time"),
			events:  rapid.IntRange(0, 1<<40).Draw(rt, "events"),
			dead:    rapid.Bool().Draw(rt, "dead"),
			created: rapid.Int64().Draw(rt, "created"),
			tracked: []byte(rapid.SampledFrom([]string{``, `{}`, `{"status":"new"}`}).Draw(rt, "tracked")),
		}
		encoded := k.encode()
		got, err := parseKnown(encoded)
		if err != nil || got.modTime != k.modTime || got.events != k.events || got.dead != k.dead || got.created != k.created ||
			string(got.tracked) != string(k.tracked) {
			rt.Fatalf("%+v, %v, want %+v", got, err, k)
		}
		for _, part := range [][]byte{encoded[:0], encoded[:1], encoded[:min(len(encoded)-len(k.tracked)-1, len(encoded))]} {
			_, err := parseKnown(part)
			require.True(rt, err != nil, string(part), "can be read")
		}
	})
}

func TestWhatEarlierVersionsKnewOfADetectionCanBeRead(t *testing.T) {
	const tracked = `{"status":"new"}`
	own := "\x03"
	for modTime := range int64(3) {
		own += string(binary.AppendVarint(nil, 1<<modTime)) + "a digest"
	}
	for name, c := range map[string]struct {
		flags byte
		rest  string
		want  known
	}{
		"delivered":    {0, "", known{}},
		"given up":     {knownDead, "", known{dead: true}},
		"own versions": {knownOwn, own, known{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := binary.AppendUvarint(binary.AppendVarint(nil, 1_750_000_000_123), 3)
			b = append(append(b, c.flags), c.rest+tracked...)
			c.want.modTime, c.want.events, c.want.tracked = 1_750_000_000_123, 3, []byte(tracked)
			got := require.Value(parseKnown(b))(t)
			assert.DeepEqual(t, got, c.want)
			if c.rest == "" && string(got.encode()) != string(b) {
				t.Errorf("written as %x, want %x", got.encode(), b)
			}
		})
	}
}

func TestAPositionMayLeaveWholeOut(t *testing.T) {
	for stored, want := range map[string]int64{
		`{"mod_time":7}`:            7,
		`{"mod_time":7,"whole":5}`:  5,
		`{"mod_time":7,"whole":99}`: 7,
	} {
		assert.Equal(t, require.Value(parsePosition[detectionsPosition]([]byte(stored)))(t).Whole, want, stored)
	}
}
