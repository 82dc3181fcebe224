package poller

import (
	"encoding/binary"
	"reflect"
	"testing"

	"pgregory.net/rapid"

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
		if rapid.Bool().Draw(rt, "own version") {
			k.own = newOwnVersion(rapid.Int64().Draw(rt, "own mod_time"), k.tracked)
		}
		encoded := k.encode()
		got, err := parseKnown(encoded)
		if err != nil || got.modTime != k.modTime || got.events != k.events || got.dead != k.dead || got.created != k.created ||
			string(got.tracked) != string(k.tracked) || got.own != k.own {
			rt.Fatalf("%+v, %v, want %+v", got, err, k)
		}
		for _, part := range [][]byte{encoded[:0], encoded[:1], encoded[:min(len(encoded)-len(k.tracked)-1, len(encoded))]} {
			if _, err := parseKnown(part); err == nil {
				rt.Fatalf("%x can be read", part)
			}
		}
	})
}

func TestWhatEarlierVersionsKnewOfADetectionCanBeRead(t *testing.T) {
	const tracked = `{"status":"new"}`
	for name, dead := range map[string]bool{"delivered": false, "given up": true} {
		t.Run(name, func(t *testing.T) {
			b := binary.AppendUvarint(binary.AppendVarint(nil, 1_750_000_000_123), 3)
			b = append(b, map[bool]byte{true: 1}[dead])
			b = append(b, tracked...)
			got, err := parseKnown(b)
			want := known{modTime: 1_750_000_000_123, events: 3, dead: dead, tracked: []byte(tracked)}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
			if string(got.encode()) != string(b) {
				t.Errorf("written as %x, want %x", got.encode(), b)
			}
		})
	}
}

func TestOfTheOwnVersionsOfAnEarlierReleaseTheLastIsKnown(t *testing.T) {
	const tracked = `{"status":"new"}`
	b := append(binary.AppendUvarint(binary.AppendVarint(nil, 30), 1), knownOwn, 3)
	for modTime := int64(10); modTime <= 30; modTime += 10 {
		v := newOwnVersion(modTime, []byte(tracked))
		b = append(binary.AppendVarint(b, v.modTime), v.digest[:]...)
	}
	got, err := parseKnown(append(b, tracked...))
	if want := newOwnVersion(30, []byte(tracked)); err != nil || got.own != want || string(got.tracked) != tracked {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestAPositionMayLeaveWholeOut(t *testing.T) {
	for stored, want := range map[string]int64{
		`{"mod_time":7}`:            7,
		`{"mod_time":7,"whole":5}`:  5,
		`{"mod_time":7,"whole":99}`: 7,
	} {
		if p, err := parsePosition[detectionsPosition]([]byte(stored)); err != nil || p.Whole != want {
			t.Errorf("%s: %d, %v, want %d", stored, p.Whole, err, want)
		}
	}
}

func TestAnOwnWriteStaysOneIfAFieldIsAddedToChanges(t *testing.T) {
	d, err := transform.ParseDetection([]byte(`{"id":1,"mod_time":5,"status":"closed","ai_disposition":"indeterminate"}`), false)
	require.NoError(t, err)
	var k known
	k.own = newOwnVersion(5, []byte(`{"status":"closed"}`)) // by an earlier release
	if !k.wrote(5, d.Tracked) {
		t.Error("an own write that an earlier release saw is not one")
	}
	k.own = newOwnVersion(5, d.Tracked)
	if other := []byte(`{"status":"closed","ai_disposition":"false_positive","list":2}`); !k.wrote(5, d.Tracked) || k.wrote(5, other) {
		t.Error("an own write is not distinguished from another version")
	}
}
