package hostile

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaKeys are the requests that the broker answers, in the order in which a client sends
// them first. It implements the newest versions without Kafka's flexible encoding.
var kafkaKeys = []struct {
	key     kmsg.Key
	version int16
}{
	{kmsg.ApiVersions, 0}, {kmsg.SASLHandshake, 1}, {kmsg.SASLAuthenticate, 1}, {kmsg.Metadata, 8},
	{kmsg.CreateTopics, 4}, {kmsg.Produce, 8}, {kmsg.FindCoordinator, 2}, {kmsg.JoinGroup, 5}, {kmsg.SyncGroup, 3},
	{kmsg.OffsetFetch, 5}, {kmsg.ListOffsets, 5}, {kmsg.Fetch, 11}, {kmsg.Heartbeat, 3}, {kmsg.OffsetCommit, 7}, {kmsg.LeaveGroup, 2},
}

// The attacks of Kafka that do not concern a single request. The others are "lists of
// 2^31-1 in", "negative lengths in" and "silence at", each followed by a space and the name
// of a request, such as Metadata or Fetch.
const (
	KafkaHTTP         = "an answer in HTTP"
	KafkaTLS          = "a TLS alert"
	KafkaNegative     = "a frame of a negative size"
	KafkaHuge         = "a frame of 2^31-1 bytes"
	KafkaEmpty        = "an empty frame"
	KafkaSilence      = "silence from the start"
	KafkaDrip         = "one byte a second"
	KafkaGarbage      = "garbage in frames"
	KafkaIterations   = "2^31-1 SCRAM iterations"
	KafkaLinkLocal    = "brokers at link-local addresses"
	KafkaManyBrokers  = "70,000 brokers"
	KafkaNoTopics     = "topics left out"
	KafkaOtherTopics  = "topics that nobody asked for"
	KafkaBomb         = "compressed records that expand a thousandfold"
	KafkaManyRecords  = "a record batch that announces 2^31-1 records"
	KafkaLargeBatch   = "a record batch of 200 MiB"
	KafkaLargeBehind  = "a record batch of 200 MiB that lies behind"
	KafkaHungUp       = "connections that end at once"
	kafkaLists        = "lists of 2^31-1 in "
	kafkaNegativeList = "negative lengths in "
	kafkaSilenceAt    = "silence at "
)

// KafkaAttacks returns the names of all attacks of Kafka.
func KafkaAttacks() []string {
	all := []string{
		KafkaHTTP, KafkaTLS, KafkaNegative, KafkaHuge, KafkaEmpty, KafkaSilence, KafkaDrip, KafkaGarbage, KafkaIterations, KafkaLinkLocal,
		KafkaManyBrokers, KafkaNoTopics, KafkaOtherTopics, KafkaBomb, KafkaManyRecords, KafkaLargeBatch, KafkaLargeBehind,
		KafkaHungUp,
	}
	for _, prefix := range []string{kafkaLists, kafkaNegativeList, kafkaSilenceAt} {
		for _, k := range kafkaKeys {
			all = append(all, prefix+k.key.Name())
		}
	}
	return all
}

// Broker is a Kafka broker that attacks its clients.
type Broker struct {
	attack   string
	answered atomic.Int64
	reached  atomic.Int64

	mu    sync.Mutex
	begun map[string]int // the number of falsified responses, by request
}

// Answered returns the number of requests answered, or deliberately not answered.
func (b *Broker) Answered() int { return int(b.answered.Load()) }

// Reached returns how often the attack reached a client. An attack may concern a request
// that a client never sends.
func (b *Broker) Reached() int { return int(b.reached.Load()) }

// NewBroker returns a broker with one of KafkaAttacks. It behaves like a broker until a client
// sends what the attack concerns: it accepts every password, has every topic, with one
// partition, and makes every client the leader of its group.
func NewBroker(attack string) *Broker {
	if !slices.Contains(KafkaAttacks(), attack) {
		panic("hostile: unknown attack " + attack)
	}
	return &Broker{attack: attack, begun: map[string]int{}}
}

// Serve serves a connection until the attack or the client ends it.
func (b *Broker) Serve(c net.Conn) {
	if b.attack == KafkaSilence || b.attack == KafkaHungUp {
		b.answered.Add(1)
		b.reached.Add(1)
		if b.attack == KafkaHungUp {
			_ = c.(*net.TCPConn).CloseWrite()
		}
		// What the peer has sent is read, since the system could otherwise reset the connection.
		_, _ = io.Copy(io.Discard, c)
		return
	}
	for {
		var prefix [4]byte
		if _, err := io.ReadFull(c, prefix[:]); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(prefix[:])
		if size > 64<<20 { // TLS or HTTP, which no broker accepts
			return
		}
		frame := make([]byte, size)
		if _, err := io.ReadFull(c, frame); err != nil || len(frame) < 10 {
			return
		}
		b.answered.Add(1)
		answer := b.answer(c.LocalAddr().(*net.TCPAddr), frame)
		if answer == nil { // no response
			b.reached.Add(1)
			_, _ = io.Copy(io.Discard, c)
			return
		}
		if b.attack == KafkaDrip {
			b.reached.Add(1)
			for i := range answer {
				if _, err := c.Write(answer[i : i+1]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
			continue
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
		if b.large() && kmsg.Key(binary.BigEndian.Uint16(frame)) == kmsg.Fetch {
			b.reached.Add(1)
			for range largeBatch >> 20 {
				if _, err := c.Write(zeros); err != nil {
					return
				}
			}
		}
	}
}

// largeBatch is the size of the records of a large batch, in bytes.
const largeBatch = 200 << 20

// zeros is 1 MiB of zeros.
var zeros = make([]byte, 1<<20)

// large reports whether responses to fetches end with the header of a large batch, after
// which its records are sent.
func (b *Broker) large() bool { return b.attack == KafkaLargeBatch || b.attack == KafkaLargeBehind }

// kafkaFrames are sent in place of a response, before the number of the request.
var kafkaFrames = map[string]string{
	KafkaHTTP:     "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request",
	KafkaTLS:      "\x15\x03\x03\x00\x02\x02\x46", // fatal alert, protocol_version
	KafkaNegative: "\xff\xff\xff\xfe",
	KafkaHuge:     "\x7f\xff\xff\xff",
	KafkaEmpty:    "\x00\x00\x00\x00",
}

// answer returns the response of the broker at an address to a request, preceded by its size;
// nil: no response.
func (b *Broker) answer(here *net.TCPAddr, frame []byte) []byte {
	key, version, number := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:])), frame[4:8]
	if wrong, ok := kafkaFrames[b.attack]; ok {
		b.reached.Add(1)
		return append([]byte(wrong), number...)
	}
	name := kmsg.NameForKey(key)
	if b.attack == kafkaSilenceAt+name {
		return nil
	}
	framed := func(body []byte) []byte {
		size := binary.BigEndian.AppendUint32(nil, uint32(len(number)+len(body)))
		return slices.Concat(size, number, body)
	}
	request := kmsg.RequestForKey(key)
	if request == nil {
		return nil
	}
	request.SetVersion(version)
	header := 8 + 2 + max(0, int(int16(binary.BigEndian.Uint16(frame[8:])))) // the client's name follows the correlation id
	if len(frame) < header || request.ReadFrom(frame[header:]) != nil {
		return nil
	}
	if b.attack == KafkaGarbage && kmsg.Key(key) != kmsg.ApiVersions {
		b.reached.Add(1)
		garbage := make([]byte, rand.IntN(2000))
		for i := range garbage {
			garbage[i] = byte(rand.Uint32() & rand.Uint32() & rand.Uint32())
		}
		return framed(garbage)
	}
	good := b.good(here, request)
	if good == nil {
		return nil
	}
	body := good.AppendTo(nil)
	switch b.attack {
	case kafkaLists + name:
		body = b.falsify(name, body, math.MaxInt32)
	case kafkaNegativeList + name:
		body = b.falsify(name, body, -2)
	}
	answer := framed(body)
	if b.large() && kmsg.Key(key) == kmsg.Fetch {
		// The sizes of the response, its records and their batch include the missing data.
		for _, size := range [][]byte{answer, answer[len(answer)-batchHeader-4:], answer[len(answer)-batchHeader+8:]} {
			binary.BigEndian.PutUint32(size, binary.BigEndian.Uint32(size)+largeBatch)
		}
	}
	return answer
}

// falsify announces n elements or bytes where a response has one or few, each time at
// another position. The following data is long enough for the first elements.
func (b *Broker) falsify(name string, body []byte, n int32) []byte {
	var places []int
	for i := range len(body) - 3 {
		if v := binary.BigEndian.Uint32(body[i:]); v > 0 && v < 64 {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return body
	}
	b.reached.Add(1)
	b.mu.Lock()
	at := places[b.begun[name]%len(places)]
	b.begun[name]++
	b.mu.Unlock()
	binary.BigEndian.PutUint32(body[at:], uint32(n))
	return append(body, make([]byte, 4000)...)
}

// good answers like a broker, except for attacks on the meaning of a response.
func (b *Broker) good(here *net.TCPAddr, request kmsg.Request) kmsg.Response {
	host, port := here.IP.String(), int32(here.Port)
	if b.attack == KafkaLinkLocal {
		host, port = "169.254.169.254", 80
	}
	response := request.ResponseKind()
	switch r := request.(type) {
	case *kmsg.ApiVersionsRequest:
		answer := response.(*kmsg.ApiVersionsResponse)
		for _, k := range kafkaKeys {
			answer.ApiKeys = append(answer.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: k.key.Int16(), MaxVersion: k.version})
		}
	case *kmsg.SASLHandshakeRequest:
		response.(*kmsg.SASLHandshakeResponse).SupportedMechanisms = []string{r.Mechanism}
	case *kmsg.SASLAuthenticateRequest:
		answer := response.(*kmsg.SASLAuthenticateResponse)
		answer.SASLAuthBytes = []byte("welcome")
		if _, nonce, scram := strings.Cut(string(r.SASLAuthBytes), ",r="); scram && b.attack == KafkaIterations {
			answer.SASLAuthBytes = fmt.Appendf(nil, "r=%sx,s=c2FsdA==,i=%d", nonce, math.MaxInt32)
		}
	case *kmsg.MetadataRequest:
		b.layout(r, response.(*kmsg.MetadataResponse), host, port)
	case *kmsg.CreateTopicsRequest:
		answer := response.(*kmsg.CreateTopicsResponse)
		for _, topic := range r.Topics {
			answer.Topics = append(answer.Topics, kmsg.CreateTopicsResponseTopic{Topic: topic.Topic})
		}
	case *kmsg.ProduceRequest:
		answer := response.(*kmsg.ProduceResponse)
		for _, topic := range r.Topics {
			t := kmsg.ProduceResponseTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				taken := kmsg.NewProduceResponseTopicPartition()
				taken.Partition = p.Partition
				taken.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{{}}
				t.Partitions = append(t.Partitions, taken)
			}
			answer.Topics = append(answer.Topics, t)
		}
	default:
		return b.group(request, response, host, port)
	}
	return response
}

// layout returns metadata in which this broker leads the only partition of every topic.
func (b *Broker) layout(r *kmsg.MetadataRequest, answer *kmsg.MetadataResponse, host string, port int32) {
	answer.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: host, Port: port}}
	if b.attack == KafkaManyBrokers {
		for id := range int32(70_000) {
			answer.Brokers = append(answer.Brokers, kmsg.MetadataResponseBroker{NodeID: 2 + id, Host: "h", Port: id})
		}
	}
	answer.ControllerID = 1
	topics := r.Topics
	switch b.attack {
	case KafkaNoTopics:
		topics = nil
	case KafkaOtherTopics:
		for range 2000 {
			topics = append(topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(fmt.Sprintf("topic-%d", rand.Uint64()))})
		}
	}
	for _, topic := range topics {
		answer.Topics = append(answer.Topics, kmsg.MetadataResponseTopic{Topic: topic.Topic, AuthorizedOperations: math.MinInt32, Partitions: []kmsg.MetadataResponseTopicPartition{
			{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}, OfflineReplicas: []int32{1}},
		}})
	}
}

// group answers requests of members of a consumer group.
func (b *Broker) group(request kmsg.Request, response kmsg.Response, host string, port int32) kmsg.Response {
	switch r := request.(type) {
	case *kmsg.FindCoordinatorRequest:
		answer := response.(*kmsg.FindCoordinatorResponse)
		answer.NodeID, answer.Host, answer.Port = 1, host, port
	case *kmsg.JoinGroupRequest:
		answer := response.(*kmsg.JoinGroupResponse)
		answer.Generation, answer.LeaderID, answer.MemberID = 1, "member", "member"
		for _, p := range r.Protocols {
			answer.Protocol = kmsg.StringPtr(p.Name)
			answer.Members = []kmsg.JoinGroupResponseMember{{MemberID: "member", ProtocolMetadata: p.Metadata}}
		}
	case *kmsg.SyncGroupRequest:
		for _, a := range r.GroupAssignment {
			response.(*kmsg.SyncGroupResponse).MemberAssignment = a.MemberAssignment
		}
	case *kmsg.OffsetFetchRequest:
		answer := response.(*kmsg.OffsetFetchResponse)
		for _, topic := range r.Topics {
			t := kmsg.OffsetFetchResponseTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				t.Partitions = append(t.Partitions, kmsg.OffsetFetchResponseTopicPartition{Partition: p, Offset: -1, LeaderEpoch: -1})
			}
			answer.Topics = append(answer.Topics, t)
		}
	case *kmsg.ListOffsetsRequest:
		answer := response.(*kmsg.ListOffsetsResponse)
		for _, topic := range r.Topics {
			t := kmsg.ListOffsetsResponseTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				t.Partitions = append(t.Partitions, kmsg.ListOffsetsResponseTopicPartition{Partition: p.Partition, Timestamp: -1, LeaderEpoch: -1})
			}
			answer.Topics = append(answer.Topics, t)
		}
	case *kmsg.FetchRequest:
		answer := response.(*kmsg.FetchResponse)
		for _, topic := range r.Topics {
			t := kmsg.FetchResponseTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				t.Partitions = append(t.Partitions, kmsg.FetchResponseTopicPartition{
					Partition: p.Partition, HighWatermark: math.MaxInt64, LastStableOffset: math.MaxInt64, RecordBatches: b.records(p.FetchOffset),
					AbortedTransactions: []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 1}},
				})
			}
			answer.Topics = append(answer.Topics, t)
		}
	case *kmsg.OffsetCommitRequest:
		answer := response.(*kmsg.OffsetCommitResponse)
		for _, topic := range r.Topics {
			t := kmsg.OffsetCommitResponseTopic{Topic: topic.Topic}
			for _, p := range topic.Partitions {
				t.Partitions = append(t.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition})
			}
			answer.Topics = append(answer.Topics, t)
		}
	case *kmsg.HeartbeatRequest, *kmsg.LeaveGroupRequest:
	default:
		return nil
	}
	return response
}

// bomb returns 16 MiB of zeros, compressed.
var bomb = sync.OnceValue(func() []byte {
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	for range 16 {
		_, _ = w.Write(zeros) // to memory
	}
	_ = w.Close()
	return compressed.Bytes()
})

// records returns record batches that begin at an offset: one batch with one record, except
// for attacks on records.
func (b *Broker) records(offset int64) []byte {
	record := []byte{14, 0, 0, 0, 1, 2, 'x', 0} // of 7 bytes: no key, the value x, no headers
	switch b.attack {
	case KafkaManyRecords:
		return recordBatch(offset, 0, math.MaxInt32, record)
	case KafkaBomb:
		var all []byte
		for i := range int64(8) {
			all = append(all, recordBatch(offset+i, 1, 1, bomb())...)
		}
		return all
	case KafkaLargeBatch:
		return recordBatch(offset, 0, 1, nil)
	case KafkaLargeBehind:
		return recordBatch(max(offset-1000, 0), 0, 1, nil)
	}
	return recordBatch(offset, 0, 1, record)
}

// batchHeader is the size of a batch before its records.
const batchHeader = 61

// recordBatch returns a batch of format v2 with a valid checksum.
func recordBatch(offset int64, attributes int16, count int32, records []byte) []byte {
	const sum = 17
	batch := kmsg.RecordBatch{
		FirstOffset: offset, Length: int32(batchHeader - 12 + len(records)), PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes,
		FirstTimestamp: 1, MaxTimestamp: 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: cmp.Or(count, 1), Records: records,
	}
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[sum:], crc32.Checksum(raw[sum+4:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
