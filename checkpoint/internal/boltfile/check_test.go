package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// contents adds the entries of a bucket and of those nested in it, named by bucket, key and size: by
// bucket in their order to entries, and with their values to values.
func contents(b *bolt.Bucket, path string, entries map[string][]string, values map[string]string) {
	_ = b.ForEach(func(key, value []byte) error {
		if value == nil {
			contents(b.Bucket(key), path+"/"+string(key), entries, values)
			return nil
		}
		name := fmt.Sprintf("%s %s %d", path, key, len(value))
		entries[path] = append(entries[path], name)
		values[name] = string(value)
		return nil
	})
}

// writeFile writes a file with random changes, one transaction after the other, and
// returns its contents.
func writeFile(t *rapid.T, path string) map[string]string {
	o := Options()
	o.PageSize, o.NoSync = 4096, true
	o.NoFreelistSync = rapid.Bool().Draw(t, "without a list of free pages")
	db, err := bolt.Open(path, Mode, &o)
	require.NoError(t, err)
	err = Update(db, func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(MetaBucket)
		return errors.Join(err, SumUp(tx))
	})
	for range rapid.IntRange(1, 6).Draw(t, "transactions") {
		err = errors.Join(err, Update(db, func(tx *bolt.Tx) error { return change(t, NewTx(tx, testScheme)) }))
	}
	values := map[string]string{}
	err = errors.Join(err, db.View(func(tx *bolt.Tx) error {
		contents(tx.Cursor().Bucket(), "", map[string][]string{}, values)
		return nil
	}), db.Close())
	require.NoError(t, err)
	return values
}

// change makes a transaction's changes.
func change(t *rapid.T, tx *Tx) error {
	name := []byte(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "bucket"))
	if _, err := tx.CreateBucketIfNotExists(name); err != nil {
		return err
	}
	table := tx.Table(name)
	if rapid.Bool().Draw(t, "nested") {
		inner := []byte(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "nested bucket"))
		if rapid.IntRange(0, 4).Draw(t, "dropped") == 0 {
			table.DeleteBucket(inner)
			return tx.PutSum()
		}
		var err error
		if table, err = table.Make(inner); err != nil {
			return err
		}
	}
	first, n := rapid.IntRange(100, 999).Draw(t, "first key"), rapid.IntRange(1, 150).Draw(t, "keys")
	size := rapid.SampledFrom([]int{0, 20, 500, 9000}).Draw(t, "value size")
	deleted := rapid.IntRange(0, 2).Draw(t, "deleted") == 0
	for i := range n {
		key := fmt.Appendf(nil, "%d", first+i)
		table.Delete(key)
		if !deleted {
			table.Put(key, bytes.Repeat([]byte{byte(n)}, size))
		}
	}
	return tx.PutSum()
}

// found is what a check says of a file.
type found struct {
	sum, stored uint64
	visited     []string
	values      map[string]string   // read by bbolt
	entries     map[string][]string // read by bbolt, by bucket
	bbolt       []error             // of Tx.Check
}

// check checks a file as Open's callers do, and lets bbolt read it only if that finds no
// damage.
func check(path string) (f found, err error) {
	o := Options()
	o.ReadOnly = true
	db, file, err := Open(path, o)
	if err != nil {
		return f, err
	}
	defer db.Close()
	err = Guard(func() error {
		return db.View(func(tx *bolt.Tx) error {
			visit := func(bucket string, key []byte, size uint64) {
				f.visited = append(f.visited, fmt.Sprintf("%s %s %d", bucket, key, size))
			}
			if f.sum, err = Check(file, tx, visit); err != nil {
				return err
			}
			if _, err := Check(file, tx, nil); err != nil {
				return fmt.Errorf("the names alone: %w", err)
			}
			if tx.Bucket(MetaBucket) == nil {
				return errors.New("no sum")
			}
			f.stored, _ = Sum(tx)
			f.values, f.entries = map[string]string{}, map[string][]string{}
			contents(tx.Cursor().Bucket(), "", f.entries, f.values)
			for err := range tx.Check() {
				if !strings.HasSuffix(err.Error(), "unreachable unfreed") {
					f.bbolt = append(f.bbolt, err)
				}
			}
			return nil
		})
	})
	return f, err
}

func TestAFileThatBboltWroteIsAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	rapid.Check(t, func(t *rapid.T) {
		_ = os.Remove(path)
		values := writeFile(t, path)
		f, err := check(path)
		require.True(t, err == nil && f.bbolt == nil, "refused", err, "bbolt", f.bbolt)
		assert.Equal(t, f.sum, f.stored, "the entries have the sum", "and the transactions computed")
		assert.True(t, maps.Equal(f.values, values), "the contents changed")
		// Each bucket is visited in its order, except MetaBucket, and nothing else is.
		delete(f.entries, "/"+metaName)
		visited := map[string][]string{}
		for _, name := range f.visited {
			bucket, _, _ := strings.Cut(name, " ")
			visited[bucket] = append(visited[bucket], name)
		}
		assert.Equal(t, fmt.Sprint(visited), fmt.Sprint(f.entries), "visited", visited, f.entries)
	})
}

func TestADamagedFileIsRefusedOrHasAnotherSumOrTheSameEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	rapid.Check(t, func(t *rapid.T) {
		_ = os.Remove(path)
		values := writeFile(t, path)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		// The beginning of a page holds its header and its table of elements.
		const size = 4096
		for range rapid.IntRange(1, 3).Draw(t, "bytes damaged") {
			page := rapid.IntRange(2, len(b)/size-1).Draw(t, "page")
			at := rapid.OneOf(rapid.IntRange(0, 63), rapid.IntRange(0, size-1)).Draw(t, "offset")
			b[page*size+at] ^= byte(1 << rapid.IntRange(0, 7).Draw(t, "bit"))
		}
		if rapid.IntRange(0, 9).Draw(t, "cut short") == 0 {
			b = b[:rapid.IntRange(2*size, len(b)).Draw(t, "length")]
		}
		require.NoError(t, os.WriteFile(path, b, Mode))
		f, err := check(path)
		if err != nil {
			return
		}
		require.True(t, f.bbolt == nil, "a file was accepted that bbolt refuses", f.bbolt)
		assert.True(t, f.sum != f.stored || maps.Equal(f.values, values), "the entries changed, and the sum did not")
	})
}

func TestPagesBeyondTheEndOfTheFileAreNotNeededToReadThoseBeforeIt(t *testing.T) {
	const size = 4096
	path := filepath.Join(t.TempDir(), "state.db")
	var pages []byte
	for id := range 3 {
		pages = append(pages, bytes.Repeat([]byte{byte(id)}, size)...)
	}
	require.NoError(t, os.WriteFile(path, pages, Mode))
	file := require.Value(os.Open(path))(t)
	defer file.Close()
	w := &pageWalk{file: file, size: size, pages: 10, next: 1} // pages follow each other
	for id := uint64(1); id < 3; id++ {
		b, err := w.page(id)
		assert.True(t, err == nil && len(b) == size && b[0] == byte(id), "page", id, len(b), "bytes", err)
	}
	_, err := w.page(3)
	assert.Error(t, err, "a page that the file does not have was read")
}
