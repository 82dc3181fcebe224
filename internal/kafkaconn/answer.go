package kafkaconn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"

	"ndrbridge/internal/failure"
)

// answers holds the types of the answers that kafka-go decodes by allocating as many elements
// as a list announces, in goroutines whose panics end the process.
var answers = map[protocol.ApiKey]reflect.Type{
	protocol.ApiVersions:      reflect.TypeFor[apiversions.Response](),
	protocol.SaslHandshake:    reflect.TypeFor[saslhandshake.Response](),
	protocol.SaslAuthenticate: reflect.TypeFor[saslauthenticate.Response](),
	protocol.Metadata:         reflect.TypeFor[metadata.Response](),
	protocol.CreateTopics:     reflect.TypeFor[createtopics.Response](),
	protocol.Produce:          reflect.TypeFor[produce.Response](),
	protocol.SyncGroup:        reflect.TypeFor[assignment](),
	protocol.ListOffsets:      reflect.TypeFor[listoffsets.Response](),
	protocol.Fetch:            reflect.TypeFor[fetchAnswer](),
}

// assignment follows a code and a size in a SyncGroup answer.
type assignment struct {
	Version int16             `kafka:"min=v0,max=v0"`
	Topics  []assignmentTopic `kafka:"min=v0,max=v0"`
}

type assignmentTopic struct {
	Topic      string  `kafka:"min=v0,max=v0"`
	Partitions []int32 `kafka:"min=v0,max=v0"`
}

// check returns an error if kafka-go must not decode the answer to r.
func (r request) check(body []byte) error {
	const codeSize, sizeSize, entry = 2, 4, 6
	if r.key == protocol.SyncGroup {
		if body = body[min(codeSize+sizeSize, len(body)):]; len(body) == 0 { // no partitions
			return nil
		}
	}
	t := answers[r.key]
	if t == nil {
		return nil
	}
	_, err := skip(t, r.version, body)
	if err == nil && r.key == protocol.ApiVersions && int32(binary.BigEndian.Uint32(body[codeSize:])) < 0 { // kafka.Conn panics
		err = errors.New("it has no versions")
	}
	if err != nil {
		return foreign("its %s answer is malformed: %w", r.key, err)
	}
	if r.key != protocol.ApiVersions {
		return nil
	}
	for b := body[codeSize+sizeSize:]; len(b) >= entry; b = b[entry:] {
		newest := binary.BigEndian.Uint16(b[4:])
		switch key := protocol.ApiKey(binary.BigEndian.Uint16(b)); {
		case key == protocol.Produce && newest < 3:
			return failure.Errorf(failure.Halted, "it supports Produce requests up to version %d: it must be Kafka 0.11 to 4.x", newest)
		case key == protocol.CreateTopics && newest > 4:
			binary.BigEndian.PutUint16(b[4:], 4) // version 5 has another encoding, which skip does not know
		}
	}
	return nil
}

// skip returns the bytes after a value of type t in a version of the protocol, or an error if b
// does not begin with one.
func skip(t reflect.Type, version int16, b []byte) (rest []byte, err error) {
	size, n := int(t.Size()), 0
	switch t.Kind() {
	case reflect.Struct:
		for _, f := range fields(t) {
			if f.oldest <= version && version <= f.newest {
				if b, err = skip(f.Type, version, b); err != nil {
					return nil, err
				}
			}
		}
		return b, nil
	case reflect.String:
		size = 2
	case reflect.Slice:
		size = 4
	}
	if len(b) < size {
		return nil, errors.New("it ends too early")
	}
	switch t.Kind() {
	case reflect.String:
		n = int(int16(binary.BigEndian.Uint16(b)))
	case reflect.Slice:
		n = int(int32(binary.BigEndian.Uint32(b)))
	}
	if b = b[size:]; n < -1 || n > len(b) { // -1: null
		return nil, fmt.Errorf("it announces %d bytes or elements, and %d bytes are left", n, len(b))
	}
	if t.Kind() != reflect.Slice || t.Elem().Kind() == reflect.Uint8 {
		return b[max(n, 0):], nil
	}
	for range n {
		if b, err = skip(t.Elem(), version, b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// field is one of the fields of a struct, by kafka-go's tag.
type field struct {
	reflect.Type
	oldest, newest int16 // the versions that have it
}

var known sync.Map // the fields of structs by their reflect.Type: finding them is slow

// fields returns the fields of a struct.
func fields(t reflect.Type) (all []field) {
	if found, ok := known.Load(t); ok {
		return found.([]field)
	}
	for i := range t.NumField() {
		f := field{Type: t.Field(i).Type}
		for tag := range strings.SplitSeq(t.Field(i).Tag.Get("kafka"), "|") {
			if _, err := fmt.Sscanf(tag, "min=v%d,max=v%d", &f.oldest, &f.newest); err == nil && t.Field(i).Name != "_" {
				all = append(all, f)
			}
		}
	}
	known.Store(t, all)
	return all
}
