package replicated

import (
	"errors"
	"testing"
)

func FuzzID(f *testing.F) {
	for _, s := range []string{"a.1.2.3/4", "a.b-c.0.0.1/1", ".1.1.1/1", "a.1.1.2/1", "a.01.1.1/1", "", "a.1.1.1/99999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := parseID(s)
		if ok && (id.String() != s || id.part < 1 || id.part > id.parts || id.owner == "") {
			t.Errorf("%q is read as %+v", s, id)
		}
	})
}

// FuzzReader feeds messages that nobody wrote.
func FuzzReader(f *testing.F) {
	f.Add("a.1.1.1/1", "take", []byte(`{"format":1}`), "a.1.2.1/1", []byte("\x28\xb5\x2f\xfd"))
	f.Add("a.1.1.1/2", "record", []byte{}, "a.1.1.2/2", []byte{1})
	f.Fuzz(func(t *testing.T, id, kind string, data []byte, nextID string, next []byte) {
		r, err := newReader()
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		_, _, _ = r.read(1, Message{id, kind, data})
		_, complete, err := r.read(2, Message{nextID, KindRecord, next})
		if complete && err != nil {
			t.Errorf("complete, and %v", err)
		}
	})
}

func TestUnreadableRecords(t *testing.T) {
	r, err := newReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if _, _, err := r.read(1, Message{"a.1.1.1/1", KindRecord, []byte("not compressed")}); !errors.Is(err, ErrDiverged) {
		t.Errorf("error %v, want %v", err, ErrDiverged)
	}
}
