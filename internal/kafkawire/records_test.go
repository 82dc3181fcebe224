package kafkawire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// batchOf returns a record batch, encoded with another client's types.
func batchOf(first int64, attributes int16, records []byte, count int) []byte {
	batch := kmsg.RecordBatch{
		FirstOffset: first, Length: int32(batchHeader - 12 + len(records)), Magic: 2, Attributes: attributes, LastOffsetDelta: int32(count) - 1,
		FirstTimestamp: 1000, MaxTimestamp: 5000, NumRecords: int32(count), Records: records,
	}
	return sealed(batch.AppendTo(nil))
}

func sealed(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func recordOf(delta int, value string, headers ...kmsg.Header) []byte {
	r := kmsg.Record{TimestampDelta64: int64(delta), OffsetDelta: int32(delta), Key: []byte("k"), Value: []byte(value), Headers: headers}
	body := r.AppendTo(nil)[1:] // without the length, which is 0
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// compressors holds a compressor for each codec, and another framing of snappy.
var compressors = map[string]func([]byte) (codec int16, b []byte){
	"none": func(b []byte) (int16, []byte) { return codecNone, b },
	"gzip": func(b []byte) (int16, []byte) {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		w.Write(b)
		w.Close()
		return codecGzip, out.Bytes()
	},
	"snappy": func(b []byte) (int16, []byte) { return codecSnappy, s2.EncodeSnappy(nil, b) },
	"snappy as Java frames it": func(b []byte) (int16, []byte) {
		out := []byte(snappyMagic + "\x00\x00\x00\x01\x00\x00\x00\x01")
		for block := range slices.Chunk(b, 32<<10) {
			encoded := s2.EncodeSnappy(nil, block)
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(encoded))), encoded...)
		}
		return codecSnappy, out
	},
	"lz4": func(b []byte) (int16, []byte) {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		w.Write(b)
		w.Close()
		return codecLz4, out.Bytes()
	},
	"zstd": func(b []byte) (int16, []byte) {
		w, _ := zstd.NewWriter(nil)
		defer w.Close()
		return codecZstd, w.EncodeAll(b, nil)
	},
}

func TestRecordsOfEveryCodec(t *testing.T) {
	for name, compress := range compressors {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				values := rapid.SliceOfN(rapid.String(), 1, 20).Draw(t, "values")
				var records []byte
				for i, v := range values {
					records = append(records, recordOf(i, v, kmsg.Header{Key: "a", Value: []byte("1")}, kmsg.Header{Key: "b"}, kmsg.Header{Key: "a", Value: []byte(v)})...)
				}
				codec, compressed := compress(records)
				raw := batchOf(100, codec, compressed, len(values))
				set := slices.Concat(raw, raw[:rapid.IntRange(0, len(raw)-1).Draw(t, "cut")])

				b, rest, ok, err := NextBatch(set)
				if err != nil || !ok || b.First != 100 || b.Last != 99+int64(len(values)) {
					t.Fatalf("%+v, %v, %v", b, ok, err)
				}
				n := 0
				for r, err := range b.Records() {
					if err != nil {
						t.Fatal(err)
					}
					if r.Offset != int64(100+n) || string(r.Value) != values[n] || !r.Time.Equal(time.UnixMilli(int64(1000+n))) ||
						r.Header("a") != values[n] || r.Header("b") != "" || r.Header("c") != "" {
						t.Fatalf("record %d: %+v", n, r)
					}
					n++
				}
				if n != len(values) {
					t.Fatalf("%d records, not %d", n, len(values))
				}
				if _, _, ok, err := NextBatch(rest); ok || err != nil {
					t.Fatalf("a batch that is cut off: %v, %v", ok, err)
				}
			})
		})
	}
}

func TestDecompressedRecordsAreBounded(t *testing.T) {
	for name, compress := range compressors {
		if name == "none" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			codec, compressed := compress(make([]byte, 16*maxRecords))
			b, _, ok, err := NextBatch(batchOf(0, codec, compressed, 1))
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			for _, err := range b.Records() {
				if !errors.Is(err, ErrRecordsTooLarge) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

func TestControlBatchesHaveNoRecords(t *testing.T) {
	b, _, ok, err := NextBatch(batchOf(7, controlBatch, recordOf(0, "commit"), 1))
	if !ok || err != nil || b.Last != 7 {
		t.Fatal(b, ok, err)
	}
	for r := range b.Records() {
		t.Errorf("%+v", r)
	}
}

// largeHeader returns the header of a batch with a number of bytes after it.
func largeHeader(length int64, first, delta int64, count int32) []byte {
	batch := kmsg.RecordBatch{FirstOffset: first, Length: int32(length), Magic: 2, LastOffsetDelta: int32(delta), MaxTimestamp: 5000, NumRecords: count}
	return batch.AppendTo(nil)
}

func TestOnlyTheHeaderOfALargeBatchIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, delta := rapid.Int64Range(0, math.MaxInt64-math.MaxInt32-1).Draw(t, "first"), rapid.Int64Range(0, math.MaxInt32).Draw(t, "delta")
		count := int32(rapid.Int64Range(1, min(delta+1, math.MaxInt32)).Draw(t, "count"))
		length := rapid.Int64Range(batchHeader-12+maxRecords+1, maxWholeFetch-12).Draw(t, "length")
		set := append(largeHeader(length, first, delta, count), make([]byte, rapid.IntRange(0, 200).Draw(t, "more"))...)
		if _, _, ok, err := NextBatch(set[:rapid.IntRange(0, batchHeader-1).Draw(t, "cut")]); ok || err != nil {
			t.Fatalf("a part of the header: %v, %v", ok, err)
		}
		b, rest, ok, err := NextBatch(set)
		if err != nil || !ok || b.First != first || b.Last != first+delta || len(rest) > 0 || !b.Time().Equal(time.UnixMilli(5000)) {
			t.Fatalf("%+v, %v, %v", b, ok, err)
		}
		n := 0
		for _, err := range b.Records() {
			if n++; !errors.Is(err, ErrRecordsTooLarge) {
				t.Fatal(err)
			}
		}
		if n != 1 {
			t.Fatalf("%d errors", n)
		}
	})
	const large = 10 << 20
	for name, header := range map[string][]byte{
		"a size that no answer has":        largeHeader(maxWholeFetch, 7, 0, 1),
		"the largest size":                 largeHeader(math.MaxInt32, 7, 0, 1),
		"a negative size":                  largeHeader(-1, 7, 0, 1),
		"a negative offset":                largeHeader(large, -1, 3, 1),
		"an end in front of its beginning": largeHeader(large, 7, -1, 1),
		"an end behind the last offset":    largeHeader(large, math.MaxInt64, 1, 1),
		"an end that is the last offset":   largeHeader(large, math.MaxInt64-1, 1, 1),
		"no records":                       largeHeader(large, 7, 3, 0),
		"a negative number of records":     largeHeader(large, 7, 3, -1),
		"more records than offsets":        largeHeader(large, 7, 3, 5),
		"a format of old brokers":          append(slices.Clone(largeHeader(large, 7, 0, 1)[:atMagic]), make([]byte, 100)...),
	} {
		t.Run(name, func(t *testing.T) {
			if b, _, ok, err := NextBatch(header); ok || err == nil {
				t.Errorf("%+v, %v", b, err)
			}
		})
	}
}

func FuzzRecords(f *testing.F) {
	for name, compress := range compressors {
		codec, compressed := compress(recordOf(0, name, kmsg.Header{Key: "a", Value: []byte("1")}))
		f.Add(batchOf(3, codec, compressed, 1))
	}
	f.Add(largeHeader(10<<20, 3, 4, 5))
	f.Fuzz(func(t *testing.T, set []byte) {
		if len(set) >= batchHeader {
			sealed(set)
		}
		for {
			b, rest, ok, err := NextBatch(set)
			if err != nil || !ok {
				return
			}
			size := 0
			for r, err := range b.Records() {
				if size += len(r.Value) + len(r.Header("a")); err == nil && (r.Offset < b.First || r.Offset > b.Last) {
					t.Fatalf("offset %d", r.Offset)
				}
			}
			if size > 2*maxRecords {
				t.Fatalf("%d bytes of records", size)
			}
			set = rest
		}
	})
}
