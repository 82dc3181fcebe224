package checkpoint_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

var source = checkpoint.Source{Appliance: "hq", Stream: transform.StreamDetections}

func statePath(t testing.TB) string { return filepath.Join(t.TempDir(), "state.db") }

func open(t testing.TB, path string, o checkpoint.Options) *checkpoint.Store {
	t.Helper()
	s := require.Value(checkpoint.Open(path, o))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func newEvent(t testing.TB, id string, recorded time.Time, size int) transform.Event {
	t.Helper()
	e, err := transform.New(transform.Attributes{
		ID: id, Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", RecordedTime: recorded,
	}, fmt.Appendf(nil, `{"detection":{"pad":%q}}`, strings.Repeat("x", size)))
	require.NoError(t, err)
	return e
}

// fill writes entries of every kind, so that no bucket is empty and some need more than
// a page.
func fill(t testing.TB, s *checkpoint.Store) {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"a": {}, "b": {}}))
	c := checkpoint.Commit{
		Source: source, Position: []byte("p"), ForgetBefore: 1,
		Dead: []checkpoint.DeadLetter{{Key: "d", Class: "invalid", Reason: "no id", Time: time.Unix(1, 0), Body: []byte("{}")}},
	}
	for i := range 60 {
		c.Events = append(c.Events, newEvent(t, fmt.Sprint(i), time.Unix(int64(i), 0), 500))
	}
	c.Events = append(c.Events, newEvent(t, "large", time.Unix(100, 0), 40000))
	for i := range 600 {
		c.Remember = append(c.Remember, checkpoint.Entry{Key: fmt.Sprint(i), Value: []byte("value"), At: int64(i)})
	}
	require.NoError(t, s.Commit(ctx, c))
	require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Cursor: 7, Dead: []checkpoint.DeadLetter{
		{Key: "x", Class: "rejected", Time: time.Unix(2, 0)},
		{Key: "e", Class: "rejected", Time: time.Unix(2, 0), Body: c.Events[0].Structured()},
	}}))
	_, err := s.Requeue(ctx, "a", []string{"e"})
	require.NoError(t, err)
	_, err = s.Replay(ctx, "a", checkpoint.Period{Since: time.Unix(5, 0)})
	require.NoError(t, err)
	parked := checkpoint.Parked{ParkedHead: checkpoint.ParkedHead{Order: "k", Failures: 2, First: time.Unix(3, 0)}}
	parked.Seq, parked.Key, parked.Event = 7, checkpoint.DeadKey(7), c.Events[6]
	require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Expect: 7, Cursor: 7, Parked: []checkpoint.Parked{parked}}))
	require.NoError(t, s.RememberSink(ctx, "a", []checkpoint.Entry{{Key: "m", Value: []byte("message"), At: 1}}, 0))
	now := time.Now() // commands done long ago are forgotten
	_, err = s.Accept(ctx, []checkpoint.Command{
		{Key: "k", Appliance: "hq", Subject: "SEC-1", Body: []byte("{}"), Accepted: now},
		{Appliance: "hq", Subject: "SEC-2", Body: []byte("{}"), Accepted: now},
	})
	require.NoError(t, err)
	require.NoError(t, s.Finish(ctx, checkpoint.Outcome{
		ID: 1, State: checkpoint.CommandApplied, Done: now, Expect: []checkpoint.Entry{{Key: "1", Value: []byte("x"), At: 1}},
	}))
}

// image returns a state that fill wrote, in a layout. It is never recreated: the files of
// a released layout do not change.
func image(t testing.TB, layout int) []byte {
	t.Helper()
	file := require.Value(os.Open(fmt.Sprintf("testdata/layout%d.db.gz", layout)))(t)
	defer file.Close()
	unzip := require.Value(gzip.NewReader(file))(t)
	content := require.Value(io.ReadAll(unzip))(t)
	return content
}

// wantFilled checks the part of fill's entries that every layout holds.
func wantFilled(t *testing.T, s *checkpoint.Store) {
	t.Helper()
	ctx := t.Context()
	stats, err := s.Stats(ctx)
	assert.True(t, err == nil && stats.First == 1 && stats.Last == 61 && stats.Sinks["a"].LagEvents == 54 && stats.Sinks["b"].LagEvents == 61, stats, err)
	want := checkpoint.DeadStats{Count: 1, Bytes: 2}
	assert.Equal(t, stats.DeadLetters[checkpoint.SourceOwner(source)], want, "dead letters")
	records, err := s.Read(ctx, 60, checkpoint.Batch{})
	assert.True(t, err == nil && len(records) == 1 && records[0].Event.ID == "large", "the last event", records, err)
	assert.Equal(t, string(require.Value(s.Position(ctx, source))(t)), "p", "position")
	known, err := s.Recall(ctx, source, []string{"0", "1", "599"})
	assert.True(t, err == nil && known[0] == nil && string(known[1]) == "value" && string(known[2]) == "value", "known", known, err)
}

func TestFileOfLayout5IsRead(t *testing.T) {
	path := statePath(t)
	require.NoError(t, os.WriteFile(path, image(t, 5), 0o600))
	s := open(t, path, checkpoint.Options{})
	wantFilled(t, s)
	wantQueued(t, s)
	stats, err := s.Stats(t.Context())
	want := (checkpoint.CommandStats{Pending: 1, Done: 1})
	assert.True(t, err == nil && stats.Layout == 5 && stats.Commands == want, stats, err, "want two commands")
	again, err := s.Accept(t.Context(), []checkpoint.Command{{Key: "k", Appliance: "hq", Body: []byte("{}")}})
	assert.True(t, err == nil && again[0].Duplicate, again, err, "want a known key")
	parked, err := s.Parked(t.Context(), "a", []uint64{1}, checkpoint.Batch{})
	assert.True(t, err == nil && len(parked) == 1 && parked[0].Seq == 7 && parked[0].Order == "k" && parked[0].Failures == 2 && stats.Sinks["a"].Parked == 1, parked, err)
	assert.Equal(t, string(require.Value(s.RecallSink(t.Context(), "a", []string{"m"}))(t)[0]), "message", "a remembers")
	assert.Equal(t, len(require.Value(s.Expected(t.Context(), "hq"))(t)), 1)
	names, _ := os.ReadDir(filepath.Dir(path))
	assert.Equal(t, len(names), 1, names, "are beside the state")
}

// wantQueued checks the queues that fill wrote, which layouts from 2 on hold.
func wantQueued(t *testing.T, s *checkpoint.Store) {
	t.Helper()
	stats, err := s.Stats(t.Context())
	got := stats.Sinks["a"]
	assert.True(t, err == nil && got.Queued == 3 && got.Skipped == 0, got, err, "want 3 events queued")
	next, err := s.Redeliver(t.Context(), "a", checkpoint.RedeliveryOffset{}, checkpoint.Batch{})
	assert.True(t, err == nil && len(next.Records) == 3 && next.Records[0].Key == "e" && next.Records[1].Seq == 6, next.Records, err)
}

// use calls methods that read and write all of a state. They may fail, but must return.
func use(s *checkpoint.Store) {
	ctx := context.Background()
	s.Stats(ctx)
	s.Read(ctx, 0, checkpoint.Batch{})
	s.Position(ctx, source)
	s.Recall(ctx, source, []string{"0", "599", "x"})
	s.Dead(ctx, checkpoint.SinkOwner("a"), "", 10)
	s.Dead(ctx, checkpoint.SourceOwner(source), "", 10)
	if next, err := s.Redeliver(ctx, "a", checkpoint.RedeliveryOffset{}, checkpoint.Batch{}); err == nil && len(next.Records) > 0 {
		s.CommitRedelivery(ctx, checkpoint.RedeliveryCommit{Sink: "a", Expect: next.Offset, Last: next.Records[0].Offset, Events: 1})
	}
	s.RememberSink(ctx, "a", []checkpoint.Entry{{Key: "n", Value: []byte("new"), At: 2}}, 2)
	s.RecallSink(ctx, "a", []string{"m"})
	s.Accept(ctx, []checkpoint.Command{{Key: "k", Appliance: "hq", Body: []byte("{}")}, {Appliance: "lab", Body: []byte("{}")}})
	s.Commands(ctx, checkpoint.CommandFilter{}, 0, 10)
	s.Note(ctx, 2, []byte("n"), []checkpoint.Entry{{Key: "2", Value: []byte("y"), At: 2}})
	s.Finish(ctx, checkpoint.Outcome{ID: 2, State: checkpoint.CommandRejected, Done: time.Unix(1, 0)})
	s.RetryCommand(ctx, 2)
	s.Expected(ctx, "hq")
	s.DropExpected(ctx, "hq", 2)
	s.DropCommands(ctx, []uint64{1, 2})
	s.Requeue(ctx, "a", nil)
	s.Replay(ctx, "a", checkpoint.Period{})
	s.Configure(ctx, map[string]checkpoint.Start{"a": {}, "new": {Since: time.Unix(30, 0)}})
	s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Expect: 7, Cursor: 8})
	s.Commit(ctx, checkpoint.Commit{
		Source: source, Expect: []byte("p"), Position: []byte("q"), ForgetBefore: 300,
		Remember: []checkpoint.Entry{{Key: "599", Value: []byte("new"), At: 1000}},
	})
}

// openDamaged opens bytes as a state. The state must be refused as damaged and
// left as it was, or be usable.
func openDamaged(t testing.TB, content []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	s, err := checkpoint.Open(path, checkpoint.Options{})
	if err == nil {
		use(s)
		assert.NoError(t, s.Close(), "close")
		return nil
	}
	assert.True(t, errors.Is(err, checkpoint.ErrDamaged) || errors.Is(err, checkpoint.ErrNewer), err, "want ErrDamaged")
	after, readErr := os.ReadFile(path)
	assert.True(t, readErr == nil && bytes.Equal(after, content), "the damaged file was changed", readErr)
	return err
}

func TestDamagedFileIsRefusedAndLeftAsItIs(t *testing.T) {
	t.Parallel()
	whole := image(t, 2)
	const page = 16 << 10
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	zeroed := func(from, to int) []byte {
		b := bytes.Clone(whole)
		clear(b[from:to])
		return b
	}
	for name, content := range map[string][]byte{
		"an empty file":                        {},
		"one byte":                             {1},
		"text":                                 []byte(strings.Repeat("not a database\n", 5000)),
		"noise":                                noise,
		"noise after good meta pages":          append(bytes.Clone(whole[:2*page]), noise...),
		"cut in the first page":                whole[:1000],
		"cut after the first page":             whole[:page],
		"cut after the meta pages":             whole[:2*page],
		"cut in the middle":                    whole[:len(whole)/2],
		"both meta pages zeroed":               zeroed(0, 2*page),
		"all but the meta pages zeroed":        zeroed(2*page, len(whole)),
		"nothing but zeros":                    make([]byte, len(whole)),
		"the end replaced by an older version": append(bytes.Clone(whole[:4*page]), whole[2*page:len(whole)-2*page]...),
	} {
		t.Run(name, func(t *testing.T) {
			err := openDamaged(t, content)
			require.True(t, err != nil, "opened, want an")
			assert.Contains(t, err.Error(), "backup", err, "does not say what to do")
		})
	}

}

func TestForeignFileIsRefused(t *testing.T) {
	path := statePath(t)
	db, err := bolt.Open(path, 0o600, nil)
	if err == nil {
		err = errors.Join(db.Update(func(tx *bolt.Tx) error {
			_, err := tx.CreateBucket([]byte("theirs"))
			return err
		}), db.Close())
	}
	require.NoError(t, err)
	_, err = checkpoint.Open(path, checkpoint.Options{})
	assert.ErrorIs(t, err, checkpoint.ErrDamaged)
	_, err = checkpoint.Open(t.TempDir(), checkpoint.Options{})
	assert.Error(t, err, "a folder was opened")
}

// edit changes a closed state without the store. A bucket may be in another one: outer/inner.
func edit(t testing.TB, path, bucket, key string, value []byte) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	if err == nil {
		err = errors.Join(db.Update(func(tx *bolt.Tx) error {
			outer, inner, nested := strings.Cut(bucket, "/")
			b := tx.Bucket([]byte(outer))
			if nested {
				b = b.Bucket([]byte(inner))
			}
			return b.Put([]byte(key), value)
		}), db.Close())
	}
	require.NoError(t, err)
}

func TestContentThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	numbers := func(ns ...uint64) (b []byte) {
		for _, n := range ns {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		return b
	}
	itemKey := string(numbers(9))
	path := statePath(t)
	s := open(t, path, checkpoint.Options{})
	fill(t, s)
	require.NoError(t, s.Close())
	whole := require.Value(os.ReadFile(path))(t)
	for name, test := range map[string]struct {
		bucket, key string
		value       []byte
		want        error
	}{
		"a newer version":                {"meta", "version", []byte("6"), checkpoint.ErrNewer},
		"a version that is not a number": {"meta", "version", []byte("one"), checkpoint.ErrDamaged},
		"a cursor after the journal":     {"cursors", "a", binary.BigEndian.AppendUint64(nil, 1000), checkpoint.ErrDamaged},
		"a cursor that is not a number":  {"cursors", "a", []byte("1"), checkpoint.ErrDamaged},
		"an invalid journal key":         {"journal", "\xff", []byte("{}"), checkpoint.ErrDamaged},
		"a journal entry without event":  {"journal", strings.Repeat("\x00", 24), []byte("{}"), checkpoint.ErrDamaged},
		"a number not assigned yet":      {"journal", strings.Repeat("\xff", 24), []byte("{}"), checkpoint.ErrDamaged},
		"a range from event 0":           {"replayed/a", itemKey, numbers(0, 7), checkpoint.ErrDamaged},
		"a range that ends before it":    {"replayed/a", itemKey, numbers(7, 6), checkpoint.ErrDamaged},
		"a range after the journal":      {"replayed/a", itemKey, numbers(6, 62), checkpoint.ErrDamaged},
		"a range with three ends":        {"replayed/a", itemKey, numbers(6, 7, 7), checkpoint.ErrDamaged},
		"an event larger than all":       {"journal", string(numbers(1, 0, 0)), newEvent(t, "1", time.Unix(0, 0), 10).Structured(), checkpoint.ErrDamaged},
		"a range without a number":       {"replayed/a", "x", numbers(6, 7), checkpoint.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, whole, 0o600)) // the same file, which its mark identifies
			edit(t, path, test.bucket, test.key, test.value)
			before, _ := os.ReadFile(path)
			_, err := checkpoint.Open(path, checkpoint.Options{})
			assert.ErrorIs(t, err, test.want)
			after, _ := os.ReadFile(path)
			assert.True(t, bytes.Equal(before, after), "the file was changed")
		})
	}
}

func TestLockedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time is simulated
		path := statePath(t)
		first := open(t, path, checkpoint.Options{})
		begun := time.Now()
		_, err := checkpoint.Open(path, checkpoint.Options{ReadOnly: true})
		require.ErrorIs(t, err, checkpoint.ErrLocked, "after")
		require.True(t, time.Since(begun) == 0, time.Since(begun))
		_, err = checkpoint.Open(path, checkpoint.Options{})
		took := time.Since(begun)
		require.True(t, errors.Is(err, checkpoint.ErrLocked) && took <= time.Second && took >= 900*time.Millisecond, err, took, "want ErrLocked after a second")
		assert.True(t, strings.Contains(err.Error(), path) && strings.Contains(err.Error(), "stop that one"), err, "does not say what to do")
		require.NoError(t, first.Close())
		open(t, path, checkpoint.Options{})
	})
}

func TestFileIsReadableByItsOwnerAlone(t *testing.T) {
	mode := func(path string) os.FileMode {
		info := require.Value(os.Stat(path))(t)
		return info.Mode().Perm()
	}
	path := statePath(t)
	open(t, path, checkpoint.Options{}).Close()
	assert.Equal(t, mode(path), 0o600, "a new file has mode")
	require.NoError(t, os.Chmod(path, 0o664))
	open(t, path, checkpoint.Options{}).Close()
	assert.Equal(t, mode(path), 0o600, "an old file has mode")
	names, _ := os.ReadDir(filepath.Dir(path))
	assert.Equal(t, len(names), 1, names, "are beside the state")
}

func TestMissingFolderIsAnErrorThatIsNoDamage(t *testing.T) {
	_, err := checkpoint.Open(filepath.Join(t.TempDir(), "none", "state.db"), checkpoint.Options{})
	assert.True(t, errors.Is(err, os.ErrNotExist) && !errors.Is(err, checkpoint.ErrDamaged), err, "want that the folder does not exist")
}
