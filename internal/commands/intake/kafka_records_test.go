package intake

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// batchOf returns a record batch, encoded with another client's types.
func batchOf(first int64, attributes int16, records []byte, count int) []byte {
	batch := kmsg.RecordBatch{
		FirstOffset: first, Length: int32(61 - 12 + len(records)), Magic: 2, Attributes: attributes, LastOffsetDelta: int32(max(count, 1)) - 1,
		FirstTimestamp: 1000, MaxTimestamp: 5000, NumRecords: int32(count), Records: records,
	}
	return sealed(batch.AppendTo(nil))
}

func sealed(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func recordOf(delta int, value string, headers ...kmsg.Header) []byte {
	r := kmsg.Record{TimestampDelta64: int64(delta), OffsetDelta: int32(delta), Key: []byte("k"), Value: []byte(value), Headers: headers}
	body := r.AppendTo(nil)[1:] // without the length, which is 0
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// compressors holds a compressor for each codec, and another framing of snappy.
func compressors() map[string]func([]byte) (codec int16, b []byte) {
	all := map[string]func([]byte) (codec int16, b []byte){
		"none":                   func(b []byte) (int16, []byte) { return 0, b },
		"snappy without framing": func(b []byte) (int16, []byte) { return int16(kafka.Snappy), s2.EncodeSnappy(nil, b) },
	}
	for _, codec := range []kafka.Compression{kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		all[codec.String()] = func(b []byte) (int16, []byte) {
			var out bytes.Buffer
			w := codec.Codec().NewWriter(&out)
			_, _ = w.Write(b) // to memory, like Close
			_ = w.Close()
			return int16(codec), out.Bytes()
		}
	}
	return all
}

func TestRecordsOfEveryCodec(t *testing.T) {
	for name, compress := range compressors() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				values := rapid.SliceOfN(rapid.String(), 1, 20).Draw(t, "values")
				var records []byte
				for i, v := range values {
					records = append(records, recordOf(i, v, kmsg.Header{Key: idHeader, Value: []byte("1")}, kmsg.Header{Key: "b"}, kmsg.Header{Key: idHeader, Value: []byte(v)})...)
				}
				codec, compressed := compress(records)
				raw := batchOf(100, codec, compressed, len(values))
				set := slices.Concat(raw, raw[:rapid.IntRange(0, len(raw)-1).Draw(t, "cut")])

				b, rest, ok, err := nextBatch(set)
				require.True(t, err == nil && ok && b.FirstOffset == 100 && b.last == 99+int64(len(values)), b, ok, err)
				n := 0
				for r, err := range b.all() {
					require.NoError(t, err)
					require.True(t, r.offset == int64(100+n) && string(r.value) == values[n] && r.time.Equal(time.UnixMilli(int64(1000+n))) && r.id == values[n], n, r)
					n++
				}
				require.Equal(t, n, len(values), "records, not")
				_, _, ok, err = nextBatch(rest)
				require.True(t, !ok && err == nil, "a batch that is cut off", ok, err)
			})
		})
	}
}

func TestRecordsAreBounded(t *testing.T) {
	for name, compress := range compressors() {
		t.Run(name, func(t *testing.T) {
			codec, compressed := compress(make([]byte, 16*maxRecords))
			b, _, ok, err := nextBatch(batchOf(0, codec, compressed, 1))
			require.True(t, ok && err == nil, ok, err)
			for r, err := range b.all() {
				assert.NoError(t, err, r)
				assert.True(t, r.tooLarge, r)
			}
		})
	}
}

func TestBatchesWithoutRecords(t *testing.T) {
	for name, batch := range map[string][]byte{
		"of a transaction":      batchOf(7, controlBatch, recordOf(0, "commit"), 1),
		"emptied by compaction": batchOf(7, 0, nil, 0),
	} {
		b, _, ok, err := nextBatch(batch)
		require.True(t, ok && err == nil && b.last == 7, b, ok, err)
		for r := range b.all() {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestMalformedBatches(t *testing.T) {
	header := func(length, first, delta int64) []byte {
		batch := kmsg.RecordBatch{FirstOffset: first, Length: int32(length), Magic: 2, LastOffsetDelta: int32(delta), NumRecords: 1}
		return append(batch.AppendTo(nil), make([]byte, 100)...)
	}
	for name, set := range map[string][]byte{
		"a negative size":                  header(-1, 7, 0),
		"a negative offset":                header(60, -1, 3),
		"an end in front of its beginning": header(60, 7, -1),
		"an end behind the last offset":    header(60, math.MaxInt64, 1),
		"an end that is the last offset":   header(60, math.MaxInt64-1, 1),
		"a wrong checksum":                 header(60, 7, 0),
		"a format of old brokers":          append(slices.Clone(header(60, 7, 0)[:16]), make([]byte, 100)...),
	} {
		b, _, ok, err := nextBatch(set)
		assert.True(t, !ok && err != nil, name, b, err)
	}
}

func FuzzRecords(f *testing.F) {
	for name, compress := range compressors() {
		codec, compressed := compress(recordOf(0, name, kmsg.Header{Key: idHeader, Value: []byte("1")}))
		f.Add(batchOf(3, codec, compressed, 1))
	}
	f.Fuzz(func(t *testing.T, set []byte) {
		if len(set) >= 61 {
			sealed(set)
		}
		for {
			b, rest, ok, err := nextBatch(set)
			if err != nil || !ok {
				return
			}
			size := 0
			for r, err := range b.all() {
				if size += len(r.value) + len(r.id); err == nil && (r.offset < b.FirstOffset || r.offset > b.last) {
					t.Fatalf("offset %d", r.offset)
				}
			}
			require.True(t, size <= 2*maxRecords, size, "bytes of records")
			set = rest
		}
	})
}
