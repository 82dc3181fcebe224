package poller

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
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
		time := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
		if len(k.tracked) > 0 {
			k.life = transform.Lifecycle{
				FirstSeen: time.Draw(rt, "first seen"), Acknowledged: time.Draw(rt, "acknowledged"),
				Closed: time.Draw(rt, "closed"), Reopened: time.Draw(rt, "reopened"),
			}
		}
		if len(k.tracked) > 0 && rapid.Bool().Draw(rt, "lacks context") {
			mark := contextMark{rapid.SliceOfN(rapid.Int64(), 1, maxContextDevices).Draw(rt, "devices"), rapid.Int64().Draw(rt, "since"), rapid.Int64().Draw(rt, "known")}
			k.context = mark.encode()
			got, err := parseContextMark(k.context)
			require.NoError(rt, err)
			require.True(rt, slices.Equal(got.devices, mark.devices) && got.since == mark.since && got.known == mark.known, got, mark)
			_, err = parseContextMark(k.context[:len(k.context)-1])
			require.True(rt, err != nil || len(mark.devices) > 1, "a part can be read")
		}
		k.life.FirstSeen = cmp.Or(k.life.FirstSeen, k.created)
		encoded := k.encode()
		got, err := parseKnown(encoded)
		if err != nil || got.modTime != k.modTime || got.events != k.events || got.dead != k.dead || got.created != k.created ||
			string(got.tracked) != string(k.tracked) || got.life != k.life || !bytes.Equal(got.context, k.context) {
			rt.Fatalf("%+v, %v, want %+v", got, err, k)
		}
		for _, part := range [][]byte{encoded[:0], encoded[:1], encoded[:len(withoutLife(k))-len(k.tracked)-1]} {
			_, err := parseKnown(part)
			require.True(rt, err != nil, string(part), "can be read")
		}
	})
}

// withoutLife returns what an earlier release remembers of a detection.
func withoutLife(k known) []byte {
	k.life, k.context = transform.Lifecycle{}, nil
	return k.encode()
}

func TestAnEarlierReleaseReadsADetectionWithWhatFollowsIt(t *testing.T) {
	for name, of := range map[string]known{
		"of a few times":  {life: transform.Lifecycle{Acknowledged: 1_750_000_000_123}},
		"of all of them":  {life: transform.Lifecycle{FirstSeen: 1, Acknowledged: 1_750_000_000_123, Closed: 1_750_000_000_124, Reopened: '}'}},
		"of no more than": {life: transform.Lifecycle{FirstSeen: 1_750_000_000_122}},
		"and a context":   {life: transform.Lifecycle{FirstSeen: 1}, context: contextMark{[]int64{'}', 1<<63 - 1}, 1_750_000_000_123, -5}.encode()},
	} {
		for _, unknown := range []byte{knownContext, knownContext | knownLife} {
			d := require.Value(transform.ParseDetection([]byte(`{"id":1,"mod_time":5,"status":"closed","participants":[{"id":1}]}`), false))(t).Digested()
			k := known{modTime: 1_750_000_000_123, events: 3, created: 1_750_000_000_122, tracked: d.Tracked, life: of.life, context: of.context}
			b := k.encode()
			flags := len(binary.AppendUvarint(binary.AppendVarint(nil, k.modTime), uint64(k.events)))
			b[flags] &^= unknown
			got := require.Value(parseKnown(b))(t)
			assert.True(t, got.modTime == k.modTime && got.events == k.events && got.created == k.created, name, got, k)
			assert.True(t, transform.SameTracked(got.tracked, d.Tracked), name, "is another version:", string(got.tracked))
			assert.Equal(t, string(transform.FieldsOf(got.tracked)), string(transform.FieldsOf(d.Tracked)), name, "fields")
		}
	}
}

func TestWhatFollowsADetectionAndIsDamagedIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		of    known
		sizes []byte // that it does not have
	}{
		"lifecycle": {known{life: transform.Lifecycle{Closed: 7}}, []byte{1, 3, 255}},
		"context":   {known{context: []byte("text")}, []byte{255}},
	} {
		c.of.modTime, c.of.tracked = 5, []byte(`{}`)
		b := c.of.encode()
		for _, last := range c.sizes {
			b[len(b)-1] = last
			_, err := parseKnown(b)
			assert.Error(t, err, name, "of size", last)
		}
		for size := 3; size < 5; size++ {
			_, err := parseKnown(b[:size])
			assert.Error(t, err, name, "without the size")
		}
	}
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
