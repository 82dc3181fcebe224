package appliance

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Record is one record that a record store showed.
type Record struct {
	ID    string
	Index string
	Type  string
	// Micros is its timestamp in microseconds since the epoch: JSON has it in
	// milliseconds with a fraction.
	Micros int64
	JSON   []byte
}

// recordStore holds the records of an appliance: those that were stored one by
// one, and a backlog that is made when it is looked at.
type recordStore struct {
	sync.RWMutex
	stored  []*Record // by Micros
	history []*Record
	nextSeq uint64
	backlog backlog
	cursors map[string]*recordCursor
	rand    *rand.Rand
}

// backlog is n records, evenly spread over a time.
type backlog struct {
	n           int
	first, step int64 // microseconds
}

const backlogSeq = 1 << 40 // the numbers of a backlog's records begin here

func (b backlog) micros(i int) int64 {
	jitter := int64(mix(uint64(i)) % uint64(max(1, b.step)))
	return b.first + int64(i)*b.step + jitter
}

// AddRecords stores n records now.
func (a *Appliance) AddRecords(n int) []*Record {
	a.records.Lock()
	defer a.records.Unlock()
	added := make([]*Record, n)
	for i := range added {
		// Microseconds of the appliance's own time, so that fractions differ.
		added[i] = a.store1(a.Clock().UnixMicro())
	}
	return added
}

// AddRecordsAt stores n records with one timestamp, in microseconds since the
// epoch: tied, or late.
func (a *Appliance) AddRecordsAt(n int, micros int64) []*Record {
	a.records.Lock()
	defer a.records.Unlock()
	added := make([]*Record, n)
	for i := range added {
		added[i] = a.store1(micros)
	}
	return added
}

// AddRecordBacklog shows n records that are spread evenly over the time up to
// now. They are made when they are looked at, take no memory, and are not part of
// the history. There is one backlog.
func (a *Appliance) AddRecordBacklog(n int, over time.Duration) {
	a.records.Lock()
	defer a.records.Unlock()
	now := a.Clock().UnixMicro()
	a.records.backlog = backlog{n: n, first: now - over.Microseconds(), step: over.Microseconds() / int64(max(n, 1))}
}

// RecordHistory returns every record that was stored, in the order in which they
// were.
func (a *Appliance) RecordHistory() []*Record {
	a.records.RLock()
	defer a.records.RUnlock()
	return slices.Clone(a.records.history)
}

// store1 stores a record with the store locked.
func (a *Appliance) store1(micros int64) *Record {
	s := &a.records
	s.nextSeq += 1 + uint64(s.rand.IntN(3)) // ids have holes
	r := makeRecord(a.options.Seed, s.nextSeq, micros)
	at, _ := slices.BinarySearchFunc(s.stored, micros, func(r *Record, micros int64) int {
		return cmp.Or(cmp.Compare(r.Micros, micros), -1) // behind those with the same
	})
	s.stored = slices.Insert(s.stored, at, r)
	if !a.options.NoHistory {
		s.history = append(s.history, r)
	}
	return r
}

// mix is a hash of a number.
func mix(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// recordTypes are those that records are made of.
var recordTypes = [...]string{"~http", "~dns", "~ssl", "~flow"}

// makeRecord makes the record with a number: the same number and timestamp give
// the same bytes.
func makeRecord(seed, seq uint64, micros int64) *Record {
	h := mix(seq ^ seed<<48)
	r := &Record{
		ID:     fmt.Sprintf("AW%08x%011x", uint32(mix(h)), seq),
		Index:  time.UnixMicro(micros).UTC().Format("service-1-2006-1-2-0"),
		Type:   recordTypes[h%uint64(len(recordTypes))],
		Micros: micros,
	}
	timestamp := strconv.FormatFloat(float64(micros)/1000, 'f', -1, 64)
	b := make([]byte, 0, 1024)
	b = fmt.Appendf(b, `{"_id":%q,"_index":%q,"_type":%q,"sort":[%s],"_source":{"timestamp":%s,"flowId":"%016x",`,
		r.ID, r.Index, r.Type, timestamp, timestamp, mix(h+1))
	b = fmt.Appendf(b, `"client":{"type":"device","value":["%016x"]},"clientAddr":{"type":"ipaddr4","value":"10.%d.%d.%d"},"clientPort":%d,`,
		mix(h+2), byte(h>>8), byte(h>>16), byte(h>>24), 1024+h>>32%60000)
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
	// Numbers that a double cannot hold, or that are written with a zero at the
	// end, come as they are or not at all.
	b = fmt.Appendf(b, `"reqBytes":%d,"rspBytes":%d,"processingTime":%d.%02d0,"roundTripTime":0.250}}`,
		h%3000, 1<<53+1+h>>40, h%300, h>>16%100)
	r.JSON = b
	return r
}
