package kafkaconn

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"ndrbridge/test/require"
)

// fill sets the fields of a kmsg message to non-zero values.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" {
				fill(r, v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(3), 4))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.String:
		v.SetString("abcdef"[:r.IntN(7)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 1)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(100)))
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(100)))
	}
}

// versions are the ones of kafka-go, none of them with the flexible encoding.
var versions = map[protocol.ApiKey][2]int16{
	protocol.ApiVersions: {0, 0}, protocol.SaslHandshake: {1, 1}, protocol.SaslAuthenticate: {0, 1}, protocol.Metadata: {1, 8},
	protocol.CreateTopics: {1, 4}, protocol.Produce: {3, 8}, protocol.SyncGroup: {0, 0}, protocol.ListOffsets: {1, 2}, protocol.Fetch: {4, 11},
}

// drawAnswer returns an answer of an API's kind, encoded with another client's types.
func drawAnswer(t *rapid.T, key protocol.ApiKey) (version int16, body []byte) {
	asked := kmsg.RequestForKey(int16(key))
	asked.SetVersion(rapid.Int16Range(versions[key][0], versions[key][1]).Draw(t, "version"))
	if asked.IsFlexible() {
		t.Fatalf("version %d has the flexible encoding", asked.GetVersion())
	}
	answer := asked.ResponseKind()
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	fill(r, reflect.ValueOf(answer).Elem())
	switch answer := answer.(type) {
	case *kmsg.SyncGroupResponse:
		m := kmsg.NewConsumerMemberAssignment()
		m.Topics, m.UserData = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "ndr.tickets", Partitions: []int32{0, 1}}}, []byte("x")
		answer.MemberAssignment = m.AppendTo(nil)
	}
	answer.SetVersion(asked.GetVersion())
	return asked.GetVersion(), answer.AppendTo(nil)
}

func eachAnswer(t *testing.T, test func(t *rapid.T, key protocol.ApiKey)) {
	for key := range answers {
		t.Run(key.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { test(t, key) })
		})
	}
}

func TestCompleteAnswersAreAccepted(t *testing.T) {
	eachAnswer(t, func(t *rapid.T, key protocol.ApiKey) {
		version, body := drawAnswer(t, key)
		r := request{key: key, version: version}
		err := r.check(bytes.Clone(body))
		require.True(t, err == nil || strings.Contains(err.Error(), "Produce requests"), "version", version, err)
		if cut := rapid.IntRange(0, len(body)-1).Draw(t, "cut"); key != protocol.SyncGroup {
			require.True(t, r.check(bytes.Clone(body[:cut])) != nil, cut, len(body), "bytes are accepted as complete")
		}
	})
}

// TestImpossibleLengthsDoNotReachTheLibrary falsifies an answer and passes it to kafka-go if the
// check does. The memory that this takes is that of a small multiple of the answer.
func TestImpossibleLengthsDoNotReachTheLibrary(t *testing.T) {
	eachAnswer(t, func(t *rapid.T, key protocol.ApiKey) {
		version, body := drawAnswer(t, key)
		body = append(body, make([]byte, 200)...)
		at := rapid.IntRange(0, len(body)-4).Draw(t, "at")
		binary.BigEndian.PutUint32(body[at:], rapid.SampledFrom([]uint32{math.MaxInt32, 1 << 31, math.MaxUint32, math.MaxUint32 - 1, 1 << 20}).Draw(t, "length"))
		if (request{key: key, version: version}).check(body) != nil || key == protocol.SyncGroup { // which kafka.Conn decodes
			return
		}
		frame := append([]byte{0, 0, 0, 0, 0, 0, 0, 1}, body...)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-sizeSize))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, _ = protocol.ReadResponse(bytes.NewReader(frame), key, version)
		runtime.ReadMemStats(&after)
		taken := after.TotalAlloc - before.TotalAlloc
		require.True(t, taken <= 1<<20, len(body), "bytes became", taken)
	})
}

func TestChecksOfLargeAnswersTakeNoMemory(t *testing.T) {
	answer := kmsg.NewMetadataResponse()
	topic := kmsg.NewMetadataResponseTopic()
	topic.Partitions = make([]kmsg.MetadataResponseTopicPartition, 10_000)
	answer.Topics, answer.Version = append(answer.Topics, topic), 8
	body := answer.AppendTo(nil)
	if n := testing.AllocsPerRun(1, func() {
		require.NoError(t, (request{key: protocol.Metadata, version: 8}).check(body))
	}); n > 10 {
		t.Errorf("%v allocations for 10,000 partitions", n)
	}
}
