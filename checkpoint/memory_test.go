package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// filed is what a file holds of known entries.
type filed struct {
	known, queued int
	wrong         []string
}

// readFiled reads a file that no process has open, and compares each known entry with its
// entries in the queue.
func readFiled(t rapid.TB, path string) (f filed) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		known, forget := tx.Bucket([]byte("known")), tx.Bucket([]byte("forget"))
		err := known.ForEachBucket(func(name []byte) error {
			return known.Bucket(name).ForEach(func(key, value []byte) error {
				f.known++
				if queue := forget.Bucket(name); queue == nil || queue.Get(append(bytes.Clone(value[:8]), key...)) == nil {
					f.wrong = append(f.wrong, fmt.Sprintf("%s: %s is not in the queue", name, key))
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		return forget.ForEachBucket(func(name []byte) error {
			return forget.Bucket(name).ForEach(func(key, _ []byte) error {
				f.queued++
				return nil
			})
		})
	})
	require.NoError(t, err)
	return f
}

// check checks that every known entry is in the queue once, and nothing else.
func (f filed) check(t rapid.TB) {
	t.Helper()
	require.True(t, f.queued == f.known && len(f.wrong) == 0, f.known, "known entries", f.queued, "in the queue", f.wrong)
}

func TestEveryKnownEntryIsInTheQueueOnce(t *testing.T) {
	test := t
	rapid.Check(t, func(t *rapid.T) {
		path := statePath(test)
		s := open(test, path, checkpoint.Options{})
		ctx := context.Background()
		must := func(err error) {
			require.NoError(t, err)
		}
		must(s.Configure(ctx, map[string]checkpoint.Start{"a": {}}))
		at := func() int64 { return rapid.Int64Range(0, 20).Draw(t, "at") }
		keys := func() []string {
			of := []string{"1", "2", "ndrbridge://" + source.String() + "/1", "ndrbridge://" + source.String() + "/2"}
			return rapid.SliceOfN(rapid.SampledFrom(of), 0, 5).Draw(t, "keys")
		}
		entries := func() (entries []checkpoint.Entry) {
			for _, key := range keys() {
				entries = append(entries, checkpoint.Entry{Key: key, Value: []byte("v"), At: at()})
			}
			return entries
		}
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			switch rapid.IntRange(0, 7).Draw(t, "call") {
			case 0, 1:
				before, err := s.Position(ctx, source)
				must(err)
				must(s.Commit(ctx, checkpoint.Commit{Source: source, Expect: before, Position: []byte("p"), Remember: entries(), ForgetBefore: at()}))
			case 2, 3:
				must(s.RememberSink(ctx, "a", entries(), at()))
			case 4:
				must(s.RefreshSink(ctx, "a", keys(), at(), at()))
			case 5:
				accepted, err := s.Accept(ctx, []checkpoint.Command{{Appliance: source.Appliance, Body: []byte("{}")}})
				must(err)
				must(s.Note(ctx, accepted[0].ID, nil, entries()))
				_, err = s.DropCommands(ctx, []uint64{accepted[0].ID})
				must(err)
			case 6:
				must(s.DropExpected(ctx, source.Appliance, at()))
			case 7:
				_, err := s.ForgetAppliance(ctx, source.Appliance)
				must(err)
			}
		}
		must(s.Close())
		readFiled(t, path).check(t)
	})
}

// fileAsBefore makes a file, which no process has open, one that an earlier version wrote, in
// which each known entry was remembered some times before.
func fileAsBefore(t testing.TB, path string, versions int) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	err = db.Update(func(tx *bolt.Tx) error {
		changes := boltfile.NewTx(tx, boltfile.Scheme{})
		known, forget := changes.Table([]byte("known")), changes.Table([]byte("forget"))
		err := known.ForEachBucket(func(name []byte) error {
			queue := forget.Inside(name)
			return known.Inside(name).ForEach(func(key, value []byte) error {
				at := binary.BigEndian.Uint64(value)
				for v := range uint64(versions) {
					queue.Put(append(binary.BigEndian.AppendUint64(nil, at-1000*(v+1)), key...), []byte{})
				}
				return nil
			})
		})
		return errors.Join(err, changes.PutSum())
	})
	require.NoError(t, errors.Join(err, db.Close()))
}

func TestWhatAnEarlierVersionLeftIsForgottenWithTime(t *testing.T) {
	const entries, versions = 100, 10
	path, ctx := statePath(t), t.Context()
	s := open(t, path, checkpoint.Options{})
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	next := checkpoint.Commit{Source: source, Position: []byte("p")}
	for i := range entries {
		next.Remember = append(next.Remember, checkpoint.Entry{Key: fmt.Sprint(i), Value: []byte("v"), At: int64(1_000_000 + i)})
	}
	must(s.Commit(ctx, next))
	must(s.Close())
	fileAsBefore(t, path, versions)
	f := readFiled(t, path)
	require.True(t, f.known == entries && f.queued == entries*(versions+1), f.known, "known entries", f.queued, "in the queue")
	s = open(t, path, checkpoint.Options{})
	for range 1 + entries*versions/64 { // a commit forgets 64 entries
		must(s.Commit(ctx, checkpoint.Commit{Source: source, Expect: []byte("p"), Position: []byte("p"), ForgetBefore: 1_000_000}))
	}
	for _, e := range next.Remember {
		got := require.Value(s.Recall(ctx, source, []string{e.Key}))(t)
		assert.Equal(t, string(got[0]), "v", e.Key, "is known as")
	}
	must(s.Close())
	f = readFiled(t, path)
	assert.True(t, f.known == entries && f.queued == entries, f.known, "known entries", f.queued, "in the queue")
}
