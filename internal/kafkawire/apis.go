package kafkawire

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api describes a kind of request.
type api struct {
	oldest, newest int16         // supported versions, all before the flexible encoding
	answer         shape         // of the newest version
	maxRead        int           // bytes that are read of an answer
	maxSize        int           // bytes of an answer of which only maxRead are read; 0: maxRead
	timeout        time.Duration // of an exchange; 0: only the context's
}

const (
	// maxAnswer bounds answers: the metadata of 10,000 partitions takes half of it.
	maxAnswer = 1 << 20
	// maxFetch bounds the bytes that are read of the answer to a fetch: a record batch
	// with maxRecords and the fields before it. It is more than is requested, because a
	// broker returns at least one record batch, whatever its size.
	maxFetch = maxRecords + 64<<10
	// maxWholeFetch bounds the size of the answer to a fetch, including bytes that are
	// not read. Topics may allow messages of any size; brokers accept requests of
	// 100 MiB by default.
	maxWholeFetch = 256 << 20

	requestTimeout = 10 * time.Second
	// groupTimeout includes the time that a coordinator waits for the other members of
	// a group.
	groupTimeout = time.Minute
)

// partitions returns the field of a list of topics, each with a list of partitions.
func partitions(partition ...field) field { return listOf(text, listOf(partition...)) }

var apis = map[int16]api{
	int16(kmsg.ApiVersions): {0, 0, shape{i16, listOf(i16, i16, i16)}, maxAnswer, 0, requestTimeout},

	int16(kmsg.SASLHandshake):    {1, 1, shape{i16, listOf(text)}, maxAnswer, 0, requestTimeout},
	int16(kmsg.SASLAuthenticate): {0, 1, shape{i16, text, blob, i64.from(1)}, maxAnswer, 0, requestTimeout},

	int16(kmsg.Metadata): {1, 8, shape{
		i32.from(3), listOf(i32, text, i32, text), text.from(2), i32,
		listOf(i16, text, i8, listOf(i16, i32, i32, i32.from(7), listOf(i32), listOf(i32), listOf(i32).from(5)), i32.from(8)),
		i32.from(8),
	}, maxAnswer, 0, requestTimeout},
	int16(kmsg.DescribeConfigs): {0, 3, shape{i32, listOf(
		i16, text, i8, text,
		listOf(text, text, i8, i8, i8, listOf(text, text, i8).from(1), i8.from(3), text.from(3)),
	)}, maxAnswer, 0, requestTimeout},
	int16(kmsg.CreateTopics): {2, 4, shape{i32, listOf(text, i16, text)}, maxAnswer, 0, requestTimeout},

	int16(kmsg.Produce): {oldestProduce, 8, shape{
		partitions(i32, i16, i64, i64, i64.from(5), listOf(i32, text).from(8), text.from(8)), i32,
	}, maxAnswer, 0, 0},

	int16(kmsg.FindCoordinator): {0, 2, shape{i32.from(1), i16, text.from(1), i32, text, i32}, maxAnswer, 0, requestTimeout},
	int16(kmsg.JoinGroup): {2, 5, shape{
		i32, i16, i32, text, text, text, listOf(text, text.from(5), blob),
	}, maxAnswer, 0, groupTimeout},
	int16(kmsg.SyncGroup):  {1, 3, shape{i32, i16, blob}, maxAnswer, 0, groupTimeout},
	int16(kmsg.Heartbeat):  {1, 3, shape{i32, i16}, maxAnswer, 0, requestTimeout},
	int16(kmsg.LeaveGroup): {1, 2, shape{i32, i16}, maxAnswer, 0, requestTimeout},
	int16(kmsg.OffsetFetch): {1, 5, shape{
		i32.from(3), partitions(i32, i64, i32.from(5), text, i16), i16.from(2),
	}, maxAnswer, 0, requestTimeout},
	int16(kmsg.OffsetCommit): {2, 7, shape{i32.from(3), partitions(i32, i16)}, maxAnswer, 0, requestTimeout},
	int16(kmsg.ListOffsets):  {1, 5, shape{i32.from(2), partitions(i32, i16, i64, i64, i32.from(4))}, maxAnswer, 0, requestTimeout},
	int16(kmsg.Fetch): {4, 11, shape{
		i32, i16.from(7), i32.from(7),
		partitions(i32, i16, i64, i64, i64.from(5), listOf(i64, i64), i32.from(11), blob),
	}, maxFetch, maxWholeFetch, requestTimeout},
}

// beforeRecords is the shape of the answer to a fetch of one partition, up to its
// records, which come last.
var beforeRecords = shape{
	i32, i16.from(7), i32.from(7),
	i32, text, i32, i32, i16, i64, i64, i64.from(5), listOf(i64, i64), i32.from(11),
}

// cutRecords changes the answer to a fetch of one partition, whose last unread bytes
// were not read, so that its records end where it ends.
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
		return foreign("its Fetch answer of %d bytes has other data after %d bytes of records", len(answer)+unread, size)
	}
	binary.BigEndian.PutUint32(records, uint32(read))
	return nil
}

// The messages in which group members exchange their subscriptions, and in which the
// leader assigns partitions. Brokers pass them on without reading them.
var (
	subscription = shape{i16, listOf(text), blob}
	assignment   = shape{i16, partitions(i32), blob}
)

// Subscription returns the topics to which a member of a consumer group is subscribed,
// from its message.
func Subscription(message []byte) (topics []string, err error) {
	var m kmsg.ConsumerMemberMetadata
	if err = subscription.check(message, 0); err == nil {
		// Read it as version 0: additions of later versions are not needed.
		err = m.ReadFrom(append([]byte{0, 0}, message[2:]...))
	}
	if err != nil {
		return nil, foreign("the subscription of a member of the group is malformed: %w", err)
	}
	return m.Topics, nil
}

// Assignment returns the partitions of a topic that a member of a consumer group is
// assigned, from the leader's message.
func Assignment(message []byte, topic string) (partitions []int32, err error) {
	if len(message) == 0 {
		return nil, nil // nothing was assigned
	}
	var m kmsg.ConsumerMemberAssignment
	if err = assignment.check(message, 0); err == nil {
		err = m.ReadFrom(message)
	}
	if err != nil {
		return nil, foreign("the assignment to this member of the group is malformed: %w", err)
	}
	for _, t := range m.Topics {
		if t.Topic == topic {
			partitions = append(partitions, t.Partitions...)
		}
	}
	return partitions, nil
}
