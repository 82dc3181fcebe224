package kafka

import (
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"ndrbridge/transform"
)

// What a record batch and a record take at most beside the bytes of the event in
// structured form, which are no fewer than those of its attributes and data
// (record batch format v2: a header of 61 bytes; a length, attributes and four
// variable-length numbers; a prefix and two lengths for each header).
const (
	batchOverhead  = 61
	recordOverhead = 300
)

const headerPrefix = "ce_"

// structuredHeaders go with every record of structured mode.
var structuredHeaders = []protocol.Header{{Key: "content-type", Value: []byte(transform.ContentTypeStructured)}}

// recordSize is the most that the event takes in a record batch before
// compression, in either mode.
func recordSize(e transform.Event) int {
	return recordOverhead + len(e.PartitionKey) + len(e.Structured())
}

// recordReader encodes some events of a Send, one after the other, while the
// request is written.
type recordReader struct {
	mode    transform.Mode
	events  []transform.Event
	indices []int // into events: what is left to read
	record  protocol.Record
}

// ReadRecord returns the next event as a record, which is valid until the next
// call, or io.EOF.
func (r *recordReader) ReadRecord() (*protocol.Record, error) {
	if len(r.indices) == 0 {
		return nil, io.EOF
	}
	e := r.events[r.indices[0]]
	r.indices = r.indices[1:]
	r.record = protocol.Record{Time: recordTime(e)}
	if e.PartitionKey != "" {
		r.record.Key = protocol.NewBytes([]byte(e.PartitionKey))
	}
	if r.mode == transform.Structured {
		r.record.Value = protocol.NewBytes(e.Structured())
		r.record.Headers = structuredHeaders
		return &r.record, nil
	}
	r.record.Value = protocol.NewBytes(e.Data())
	headers := make([]protocol.Header, 0, 13)
	values := make([]byte, 0, 384)
	for name, value := range e.Headers() {
		start := len(values)
		values = append(values, value...)
		headers = append(headers, protocol.Header{Key: headerPrefix + name, Value: values[start:]})
	}
	r.record.Headers = append(headers, protocol.Header{Key: "content-type", Value: []byte(transform.ContentTypeData)})
	return &r.record, nil
}

// recordTime is the record's timestamp: when the bridge saw the event. An event's
// own time may lie far back, and a broker that is told to refuse or to delete old
// records goes by the timestamp.
func recordTime(e transform.Event) time.Time {
	if e.RecordedTime.IsZero() {
		return e.Time
	}
	return e.RecordedTime
}
