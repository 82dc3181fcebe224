package record

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"ndrbridge/test/appliance/devices"
)

// Record is a stored record. It must not be modified.
type Record struct {
	ID    string // may be empty
	Index string
	Type  string
	// Micros is the timestamp in microseconds since the epoch. JSON contains it in
	// milliseconds with a fraction.
	Micros int64
	// StoredAt is the time of storing, in milliseconds by the appliance's clock.
	StoredAt int64
	JSON     []byte

	seq uint64 // increases with every stored record
}

// types are the types of generated records.
var types = [...]string{"~http", "~dns", "~ssl", "~flow"}

// hash returns the hash from which the record with a number is generated.
func (s *Store) hash(seq uint64) uint64 { return devices.Hash(seq ^ s.options.Seed<<48) }

// typeOf returns the type of the record with a number without generating it.
func (s *Store) typeOf(seq uint64) string {
	return types[s.hash(seq)%uint64(len(types))]
}

// generate generates the record with a number. The same number and timestamp give the
// same bytes.
func (s *Store) generate(seq uint64, micros int64) *Record {
	h := s.hash(seq)
	const store = 11
	r := &Record{
		ID:     fmt.Sprintf("AW%08x%011x", uint32(devices.Hash(h)), seq),
		Index:  fmt.Sprintf("%s-%d-%s-0", s.options.Word, store, time.UnixMicro(micros).UTC().Format("2006-1-2")),
		Type:   s.typeOf(seq),
		Micros: micros,
		seq:    seq,
	}
	timestamp := strconv.FormatFloat(float64(micros)/1000, 'f', -1, 64)
	b := make([]byte, 0, 1024)
	b = fmt.Appendf(b, `{"_id":%q,"_index":%q,"_type":%q,"sort":[%s],"_source":{"timestamp":%s,"flowId":"%016x",`,
		r.ID, r.Index, r.Type, timestamp, timestamp, devices.Hash(h+1))
	client := int64(1 + devices.Hash(h+2)%devices.PerSensor)
	b = fmt.Appendf(b, `"client":{"type":"device","value":["%s"]},"clientAddr":{"type":"ipaddr4","value":"%s"},"clientPort":%d,`,
		devices.DiscoveryID(client), devices.InitialAddress(client), 1024+h>>32%60000)
	b = fmt.Appendf(b, `"serverAddr":{"type":"ipaddr4","value":"192.0.2.%d"},"serverPort":%d,"ex":{"isSuspicious":%t},`,
		byte(h>>40), []int{80, 53, 443, 22}[h%4], h%50 == 0)
	switch r.Type {
	case "~http":
		b = fmt.Appendf(b, `"method":"GET","host":"intranet.example","uri":"/page/%d","statusCode":%d,`, h%1000, []int{200, 200, 302, 404, 500}[h>>20%5])
	case "~dns":
		b = fmt.Appendf(b, `"qname":"host%d.example","qtype":"A","answers":[],"isRspTruncated":false,`, h%5000)
	case "~ssl":
		b = append(b, `"version":"TLSv1.3","cipher":"TLS_AES_128_GCM_SHA256","isSelfSigned":false,`...)
	default:
		b = append(b, `"proto":"TCP","reqTTL":64,`...)
	}
	// These numbers exceed a double's precision or end in a zero: a client must keep them
	// as written.
	b = fmt.Appendf(b, `"reqBytes":%d,"rspBytes":%d,"processingTime":%d.%02d0,"roundTripTime":0.250}}`,
		h%3000, 1<<53+1+h>>40, h%300, h>>16%100)
	r.JSON = slices.Clip(b)
	return r
}

// backlog is a set of n records, evenly spread over a time range. A record is generated
// when it is read.
type backlog struct {
	n           int
	first, step int64 // microseconds
}

const backlogSeq = 1 << 40 // the first number of a backlog's records

// micros returns the timestamp of the record with an index. It never decreases.
func (b backlog) micros(i int) int64 {
	jitter := int64(devices.Hash(uint64(i)) % uint64(max(1, b.step)))
	return b.first + int64(i)*b.step + jitter
}

// before returns the number of records with a timestamp before a given one.
func (b backlog) before(micros int64) int {
	return sort.Search(b.n, func(i int) bool { return b.micros(i) >= micros })
}

func (b backlog) ref(i int) reference {
	return reference{micros: b.micros(i), seq: backlogSeq + uint64(i)}
}
