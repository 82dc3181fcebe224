package kafkawire

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is what is known here of a kind of request.
type api struct {
	oldest, newest int16         // versions, all before the flexible encoding
	answer         shape         // of the newest
	most           int           // bytes of an answer
	whole          int           // bytes of a larger answer, of which the first most are read; 0: there is none
	limit          time.Duration // of an exchange; 0: only its context's
}

const (
	// maxAnswer bounds answers: a cluster's layout of 10,000 partitions takes half.
	maxAnswer = 1 << 20
	// maxFetch bounds what is read of the answer to a fetch: a record batch with
	// MaxRecords, and what stands in front of it. It is more than is asked for, since a
	// broker answers with one record batch at least, whatever its size.
	maxFetch = MaxRecords + 64<<10
	// maxWholeFetch bounds the answer to a fetch, read or not. Topics take messages of
	// any size, and brokers requests of 100 MiB unless they are set up otherwise.
	maxWholeFetch = 256 << 20

	requestLimit = 10 * time.Second
	// groupLimit is how long a coordinator may wait for the other members of a group.
	groupLimit = time.Minute
)

// partitions is a list of topics, each with a list of partitions.
func partitions(partition ...field) field { return listOf(text, listOf(partition...)) }

// firstVersions are those of the first request on a connection: every broker knows it.
var firstVersions = map[int16]int16{int16(kmsg.ApiVersions): 0}

var apis = map[int16]api{
	int16(kmsg.ApiVersions): {0, 0, shape{i16, listOf(i16, i16, i16)}, maxAnswer, 0, requestLimit},

	int16(kmsg.SASLHandshake):    {1, 1, shape{i16, listOf(text)}, maxAnswer, 0, requestLimit},
	int16(kmsg.SASLAuthenticate): {0, 1, shape{i16, text, blob, i64.from(1)}, maxAnswer, 0, requestLimit},

	int16(kmsg.Metadata): {1, 8, shape{
		i32.from(3), listOf(i32, text, i32, text), text.from(2), i32,
		listOf(i16, text, i8, listOf(i16, i32, i32, i32.from(7), listOf(i32), listOf(i32), listOf(i32).from(5)), i32.from(8)),
		i32.from(8),
	}, maxAnswer, 0, requestLimit},
	int16(kmsg.DescribeConfigs): {0, 3, shape{i32, listOf(
		i16, text, i8, text,
		listOf(text, text, i8, i8, i8, listOf(text, text, i8).from(1), i8.from(3), text.from(3)),
	)}, maxAnswer, 0, requestLimit},
	int16(kmsg.CreateTopics): {2, 4, shape{i32, listOf(text, i16, text)}, maxAnswer, 0, requestLimit},

	int16(kmsg.Produce): {oldestProduce, 8, shape{
		partitions(i32, i16, i64, i64, i64.from(5), listOf(i32, text).from(8), text.from(8)), i32,
	}, maxAnswer, 0, 0},

	int16(kmsg.FindCoordinator): {0, 2, shape{i32.from(1), i16, text.from(1), i32, text, i32}, maxAnswer, 0, requestLimit},
	int16(kmsg.JoinGroup): {2, 5, shape{
		i32, i16, i32, text, text, text, listOf(text, text.from(5), blob),
	}, maxAnswer, 0, groupLimit},
	int16(kmsg.SyncGroup):  {1, 3, shape{i32, i16, blob}, maxAnswer, 0, groupLimit},
	int16(kmsg.Heartbeat):  {1, 3, shape{i32, i16}, maxAnswer, 0, requestLimit},
	int16(kmsg.LeaveGroup): {1, 2, shape{i32, i16}, maxAnswer, 0, requestLimit},
	int16(kmsg.OffsetFetch): {1, 5, shape{
		i32.from(3), partitions(i32, i64, i32.from(5), text, i16), i16.from(2),
	}, maxAnswer, 0, requestLimit},
	int16(kmsg.OffsetCommit): {2, 7, shape{i32.from(3), partitions(i32, i16)}, maxAnswer, 0, requestLimit},
	int16(kmsg.ListOffsets):  {1, 5, shape{i32.from(2), partitions(i32, i16, i64, i64, i32.from(4))}, maxAnswer, 0, requestLimit},
	int16(kmsg.Fetch): {4, 11, shape{
		i32, i16.from(7), i32.from(7),
		partitions(i32, i16, i64, i64, i64.from(5), listOf(i64, i64), i32.from(11), blob),
	}, maxFetch, maxWholeFetch, requestLimit},
}

// beforeRecords is the answer to a fetch of one partition up to its records, which end it.
var beforeRecords = shape{
	i32, i16.from(7), i32.from(7),
	i32, text, i32, i32, i16, i64, i64, i64.from(5), listOf(i64, i64), i32.from(11),
}

// cutRecords makes the answer to a fetch of one partition, of which unread bytes at the
// end were not read, one that ends with what was read of the records.
func cutRecords(answer []byte, version int16, unread int) error {
	records, err := beforeRecords.skip(answer, version)
	if err == nil && len(records) < blob.size {
		err = errShort
	}
	if err != nil {
		return foreign("its Fetch answer is malformed: %w", err)
	}
	read := len(records) - blob.size
	if size := int32(binary.BigEndian.Uint32(records)); int64(size) != int64(read+unread) {
		return foreign("its Fetch answer of %d bytes has %d bytes of records in front of others", len(answer)+unread, size)
	}
	binary.BigEndian.PutUint32(records, uint32(read))
	return nil
}

// Group members tell each other what they are subscribed to, and their leader what
// each is assigned to, by messages of their own, of which brokers know nothing.
var (
	subscription = shape{i16, listOf(text), blob}
	assignment   = shape{i16, partitions(i32), blob}
)

// Subscription reads what a member of a consumer group is subscribed to.
func Subscription(message []byte) (topics []string, err error) {
	if err := subscription.check(message, 0); err != nil {
		return nil, foreign("the subscription of a member of the group is malformed: %w", err)
	}
	var m kmsg.ConsumerMemberMetadata
	// What later versions add is of no use here.
	message = append([]byte{0, 0}, message[2:]...)
	if err := m.ReadFrom(message); err != nil {
		return nil, foreign("the subscription of a member of the group is malformed: %w", err)
	}
	return m.Topics, nil
}

// Assignment reads which partitions of a topic a member of a consumer group is assigned.
func Assignment(message []byte, topic string) (partitions []int32, err error) {
	if len(message) == 0 {
		return nil, nil // nothing was assigned
	}
	if err := assignment.check(message, 0); err != nil {
		return nil, foreign("the assignment to this member of the group is malformed: %w", err)
	}
	var m kmsg.ConsumerMemberAssignment
	if err := m.ReadFrom(message); err != nil {
		return nil, foreign("the assignment to this member of the group is malformed: %w", err)
	}
	for _, t := range m.Topics {
		if t.Topic == topic {
			partitions = append(partitions, t.Partitions...)
		}
	}
	return partitions, nil
}
