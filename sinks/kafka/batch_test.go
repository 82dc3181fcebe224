package kafka

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func newEncoder(t rapid.TB, name string, mode transform.Mode, maxBytes int) *encoder {
	t.Helper()
	var compression kafka.Compression
	require.NoError(t, compression.UnmarshalText([]byte(name)))
	return &encoder{mode: mode, codec: protocol.Attributes(compression), maxBytes: maxBytes}
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// readBatch decodes a batch with another client's types and checks what a broker checks or
// relies on.
func readBatch(t rapid.TB, raw []byte) (kmsg.RecordBatch, []kmsg.Record) {
	t.Helper()
	var batch kmsg.RecordBatch
	size := binary.BigEndian.Uint32(raw)
	require.Equal(t, int(size), len(raw)-sizeSize, "the size of", "bytes", size)
	raw = raw[sizeSize:]
	require.NoError(t, batch.ReadFrom(raw))
	require.Equal(t, batch.CRC, int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli))), "the checksum")
	if int(batch.Length) != len(raw)-12 || batch.Magic != 2 || batch.FirstOffset != 0 || batch.PartitionLeaderEpoch != -1 ||
		batch.ProducerID != -1 || batch.ProducerEpoch != -1 || batch.FirstSequence != -1 || batch.LastOffsetDelta != batch.NumRecords-1 {
		t.Fatalf("header %+v of %d bytes", batch, len(raw))
	}
	records := require.Value(recordsIn(batch))(t)
	latest := batch.FirstTimestamp
	for i, r := range records {
		require.True(t, int(r.OffsetDelta) == i && (i != 0 || r.TimestampDelta64 == 0) && r.Attributes == 0, "record", i, r)
		latest = max(latest, batch.FirstTimestamp+r.TimestampDelta64)
	}
	require.Equal(t, batch.MaxTimestamp, latest, "the latest time")
	return batch, records
}

func TestRecordBatchContents(t *testing.T) {
	for number, name := range codecs { // in the protocol's order
		for _, mode := range []transform.Mode{transform.Structured, transform.Binary} {
			t.Run(fmt.Sprintf("%s, %s", name, mode), func(t *testing.T) {
				e := newEncoder(t, name, mode, 0)
				rapid.Check(t, func(t *rapid.T) {
					e.reset()
					e.maxBytes = rapid.IntRange(100, 8000).Draw(t, "maxBytes")
					events := drawEvents(t)
					now := time.Now()
					left := indices(len(events))
					var batches [][]byte
					var took [][]int
					for len(left) > 0 {
						batch, taken := e.encode(events, left)
						size := len(batch) - sizeSize
						require.Equal(t, size > e.maxBytes, (taken == 0), "a batch of", size, "bytes with", taken, "events", e.maxBytes, "bytes")
						if taken == 0 {
							left = left[1:]
							continue
						}
						batches, took = append(batches, batch), append(took, left[:taken])
						left = left[taken:]
					}
					// Check all at the end: none may have overwritten another.
					for i, batch := range batches {
						header, records := readBatch(t, batch)
						require.Equal(t, len(records), len(took[i]), "events, attributes", header.Attributes, "records for")
						require.Equal(t, int(header.Attributes), number, "events, attributes", header.Attributes)
						for j, r := range records {
							checkRecord(t, header.FirstTimestamp+r.TimestampDelta64, r, events[took[i][j]], mode, now)
						}
					}
				})
			})
		}
	}
}

func drawEvents(t *rapid.T) []transform.Event {
	text := rapid.StringN(0, 200, 300)
	at := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "none") {
			return time.Time{}
		}
		return time.UnixMilli(rapid.Int64Range(1, 1<<42).Draw(t, "at"))
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) transform.Event {
		e, err := transform.New(transform.Attributes{
			ID: "1-" + text.Draw(t, "id"), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created",
			Subject: text.Draw(t, "subject"), PartitionKey: text.Draw(t, "key"),
			Time: at.Draw(t, "time"), RecordedTime: at.Draw(t, "recorded time"), Repaired: rapid.Bool().Draw(t, "repaired"),
		}, fmt.Appendf(nil, "%q", strings.Repeat(text.Draw(t, "data"), rapid.IntRange(0, 40).Draw(t, "times"))))
		require.NoError(t, err)
		return e
	}), 1, 40).Draw(t, "events")
}

func checkRecord(t rapid.TB, at int64, r kmsg.Record, e transform.Event, mode transform.Mode, now time.Time) {
	t.Helper()
	want := cmp.Or(e.RecordedTime, e.Time)
	require.True(t, at == want.UnixMilli() || want.IsZero() && at >= now.UnixMilli(), "event", e.ID, "time", at, want.UnixMilli())
	require.True(t, string(r.Key) == e.PartitionKey && (r.Key == nil) == (e.PartitionKey == ""), "event", e.ID, "key", string(r.Key))
	value, headers := e.Structured(), []kmsg.Header{{Key: "content-type", Value: []byte(transform.ContentTypeStructured)}}
	if mode == transform.Binary {
		value, headers = e.Data(), nil
		for name, value := range e.Headers() {
			headers = append(headers, kmsg.Header{Key: "ce_" + name, Value: []byte(value)})
		}
		headers = append(headers, kmsg.Header{Key: "content-type", Value: []byte(transform.ContentTypeData)})
	}
	require.True(t, bytes.Equal(r.Value, value), "event", e.ID, "value", string(r.Value), string(value))
	require.True(t, slices.EqualFunc(r.Headers, headers, func(a, b kmsg.Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }), e.ID, r.Headers, headers)
}

func TestRecordBatchUsesTheBrokersLimit(t *testing.T) {
	events := sinktest.Events(100, 100, 2000)
	for _, name := range codecs {
		e := newEncoder(t, name, transform.Structured, 20_000)
		batch, taken := e.encode(events, indices(len(events)))
		size := len(batch) - sizeSize
		assert.True(t, size <= 20_000 && (name != "none" || taken == 9) && (name == "none" || taken >= 15), name, taken, "events in", size, "bytes")
	}
}

func TestBuffersOfALargeEventAreReleased(t *testing.T) {
	e := newEncoder(t, "zstd", transform.Structured, 10_000)
	e.encode(sinktest.Events(1, 1, 1<<20), indices(1))
	e.reset()
	kept := e.sets.Cap()
	assert.True(t, kept <= 4*e.maxBytes, kept, "bytes are kept")
}
