package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

var (
	carriedKey = []byte("carried")
	testScheme = Scheme{Layout: 1, Meta: [][]byte{carriedKey}, Fill: func([]byte) float64 { return 0.7 }}
)

// emptyFile makes a file with the empty buckets a and b.
func emptyFile(t require.T, path string) *bolt.DB {
	o := Options()
	o.PageSize, o.NoSync = 4096, true
	db, err := bolt.Open(path, Mode, &o)
	if err == nil {
		err = Update(db, func(tx *bolt.Tx) error {
			for _, name := range [][]byte{MetaBucket, []byte("a"), []byte("b")} {
				if _, err := tx.CreateBucket(name); err != nil {
					return err
				}
			}
			return SumUp(tx)
		})
	}
	require.NoError(t, err)
	return db
}

// everything returns all that a file holds, sequences and empty buckets included.
func everything(db *bolt.DB) (lines []string) {
	var add func(path string, b *bolt.Bucket)
	add = func(path string, b *bolt.Bucket) {
		lines = append(lines, fmt.Sprintf("%s: %d", path, b.Sequence()))
		_ = b.ForEach(func(key, value []byte) error {
			if value == nil {
				add(path+"/"+string(key), b.Bucket(key))
			} else {
				lines = append(lines, fmt.Sprintf("%s %q %x", path, key, value))
			}
			return nil
		})
	}
	_ = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			add(string(name), b)
			return nil
		})
	})
	return lines
}

// changeTables makes the changes of a transaction, through every method that changes a table.
func changeTables(t *rapid.T, tx *Tx) {
	key := rapid.StringMatching(`[k-m][k-m]?`)
	for range rapid.IntRange(0, 12).Draw(t, "changes") {
		table := tx.Table([]byte(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "bucket")))
		inner := []byte(rapid.SampledFrom([]string{"x", "y", metaName}).Draw(t, "nested bucket"))
		what := rapid.IntRange(0, 6).Draw(t, "what")
		if what < 4 && rapid.Bool().Draw(t, "nested") {
			var err error
			table, err = table.Make(inner)
			require.NoError(t, err)
		}
		switch what {
		case 0, 1:
			value := bytes.Repeat([]byte{'v'}, rapid.SampledFrom([]int{0, 1, 200, 6000}).Draw(t, "size"))
			table.Put([]byte(key.Draw(t, "key")), value)
		case 2:
			table.Delete([]byte(key.Draw(t, "key")))
		case 3:
			require.NoError(t, table.SetSequence(rapid.Uint64().Draw(t, "sequence")))
		case 4:
			table.DeleteBucket(inner)
		case 5:
			require.Value(table.Make(inner))(t)
		case 6:
			tx.Table(MetaBucket).Put(carriedKey, []byte(key.Draw(t, "carried")))
		}
	}
}

func TestRecordsMakeTheSameFile(t *testing.T) {
	root := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		owner := emptyFile(t, filepath.Join(root, fmt.Sprint(runs)))
		defer owner.Close()
		follower := emptyFile(t, filepath.Join(root, fmt.Sprint(runs)+"f"))
		defer follower.Close()
		recorder := new(Recorder)
		for range rapid.IntRange(1, 5).Draw(t, "transactions") {
			var record []byte
			err := Update(owner, func(tx *bolt.Tx) error {
				w := NewTx(tx, testScheme)
				w.Record(recorder)
				changeTables(t, w)
				record = bytes.Clone(w.Recorded())
				return w.PutSum()
			})
			if err == nil {
				err = applyTo(follower, record)
			}
			require.NoError(t, err)
			got, want := everything(follower), everything(owner)
			require.True(t, slices.Equal(got, want), "the follower holds", got, want)
		}

		restored := emptyFile(t, filepath.Join(root, fmt.Sprint(runs)+"r"))
		defer restored.Close()
		err := owner.View(func(tx *bolt.Tx) error {
			const largest = 6100 // bytes of an entry and the names of its buckets
			b := Builder{Scheme: testScheme, PieceBytes: rapid.SampledFrom([]int{0, 100, 1 << 20}).Draw(t, "bytes of a piece")}
			pieces, last := 0, 0
			b.Yield = func(record []byte) error {
				assert.True(t, (pieces <= 0 || last >= b.PieceBytes) && len(record) <= b.PieceBytes+largest, len(record), last, b.PieceBytes)
				pieces, last = pieces+1, len(record)
				return applyTo(restored, bytes.Clone(record))
			}
			err := b.Dump(tx)
			entries := len(everything(owner))
			assert.True(t, b.PieceBytes != 0 || pieces <= entries, pieces, "pieces of", entries, "entries")
			return err
		})
		require.NoError(t, err)
		got, want := everything(restored), everything(owner)
		require.True(t, slices.Equal(got, want), "what was dumped makes", got, want)
	})
}

func applyTo(db *bolt.DB, record []byte) error {
	return Update(db, func(tx *bolt.Tx) error {
		w := NewTx(tx, testScheme)
		if err := w.Apply(record); err != nil {
			return err
		}
		return w.PutSum()
	})
}

// record makes a record of changes whose sum is that of an empty file.
func record(changes ...string) []byte {
	b := append([]byte{RecordFormat, 1}, make([]byte, 8)...)
	for _, c := range changes {
		b = append(b, c...)
	}
	return b
}

func TestRecordsThatDoNotFitAreRefused(t *testing.T) {
	db := emptyFile(t, filepath.Join(t.TempDir(), "file"))
	defer db.Close()
	require.NoError(t, applyTo(db, record("t\x01a\x00", "s\x05", "t\x01b\x01x")))
	before := everything(db)
	for name, b := range map[string][]byte{
		"nothing":                                  nil,
		"a part of the header":                     record()[:9],
		"a wrong sum":                              append([]byte{RecordFormat, 1}, 0, 0, 0, 0, 0, 0, 0, 1),
		"an entry that the sum does not cover":     record("t\x01a\x00", "p\x01k\x01v"),
		"an unknown change":                        record("t\x01a\x00", "y\x01k"),
		"a change without a bucket":                record("p\x01k\x01v"),
		"a bucket that does not exist":             record("t\x01c\x00"),
		"a change of meta that is not carried":     record("t\x04meta\x00", "p\x07version\x019"),
		"a sequence of meta":                       record("t\x04meta\x00", "s\x01"),
		"a bucket in meta":                         record("t\x04meta\x01x"),
		"a deletion in meta":                       record("t\x04meta\x00", "d\x07carried"),
		"an empty key":                             record("t\x01a\x00", "p\x00\x01v"),
		"a deletion of an empty key":               record("t\x01a\x00", "d\x00"),
		"a sequence without a number":              record("t\x01a\x00", "s"),
		"an empty name":                            record("t\x00\x00"),
		"a key longer than the record":             record("t\x01a\x00", "d\x09k"),
		"a value longer than the record":           record("t\x01a\x00", "p\x01k\xff\xff\xff\xff\x07v"),
		"a key longer than any file holds":         record("t\x01a\x00", "d"+string(binary.AppendUvarint(nil, 40000))+string(make([]byte, 40000))),
		"a number without an end":                  record("t\x01a\x00", "s\xff\xff"),
		"a number of more than 64 bits":            record("t\x01a\x00", "s\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
		"a change without operands":                record("t\x01a\x00", "p"),
		"an entry with the name of a bucket":       record("t\x01b\x00", "p\x01x\x01v"),
		"a nested bucket with the name of a value": record("t\x01a\x00", "p\x01k\x01v", "t\x01a\x01k"),
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorIs(t, applyTo(db, b), ErrRecord)
		})
	}
	assert.EqualSlices(t, everything(db), before, "the file holds")
}

// FuzzApply applies whatever comes: as far as it is applied, the sum is that of the entries.
func FuzzApply(f *testing.F) {
	f.Add(record("t\x01a\x00", "s\x05", "t\x01b\x01x", "d\x01k", "t\x01b\x00", "x\x01x"))
	f.Add(record("t\x01a\x00", "p\x01k\x01v", "d\x01k", "t\x04meta\x00", "p\x07carried\x019"))
	f.Add(record("t\x01a\x01x", "p\x01k\x01v", "t\x01a\x00", "p\x01k\x01v", "p\x01k\x00", "x\x01x", "t\x01a\x01x"))
	db := emptyFile(f, filepath.Join(f.TempDir(), "file"))
	errDone := errors.New("rolled back")
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Update(db, func(tx *bolt.Tx) error {
			w := NewTx(tx, testScheme)
			if err := w.Apply(b); err != nil && !errors.Is(err, ErrRecord) && !errors.Is(err, ErrNewer) {
				return err
			}
			sum := w.sum
			if w.Err() == nil {
				if err := SumUp(tx); err != nil {
					return err
				}
				counted, _ := Sum(tx)
				assert.Equal(t, counted, sum, "the sum")
			}
			return errDone
		})
		assert.Equal(t, err, errDone)
	})
}
