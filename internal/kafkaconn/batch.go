package kafkaconn

import "hash/crc32"

// BatchHeader is what a record batch of format v2 begins with (KIP-98 and Kafka's protocol
// guide), in big endian.
type BatchHeader struct {
	FirstOffset     int64
	Length          int32 // of the bytes from AfterLength on
	LeaderEpoch     int32
	Magic           int8
	Checksum        uint32 // CRC-32C of the bytes from AfterChecksum on
	Attributes      int16
	LastOffsetDelta int32
	FirstTime       int64 // in Unix milliseconds, like MaxTime
	MaxTime         int64
	ProducerID      int64
	ProducerEpoch   int16
	FirstSequence   int32
	Count           int32 // of the records
}

// Magic is the format, and the others are offsets in a batch.
const (
	Magic           = 2
	AfterLength     = 12
	AfterChecksum   = 21
	BatchHeaderSize = 61
)

// Castagnoli is the table of checksums.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)
