package appliance

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"sync"
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

// recordStore contains the records of an appliance: stored ones, and a backlog that is
// generated when it is read.
type recordStore struct {
	sync.RWMutex
	stored  []*Record // by Micros, then seq
	history []*Record
	lastSeq uint64
	backlog backlog
	cursors map[string]*recordCursor
	rand    *rand.Rand
}

// AddRecords stores n generated records with the timestamp of now. While a client has halted
// the ingest of records, they are lost, and it returns none.
func (a *Appliance) AddRecords(n int) []*Record {
	// Each reads the clock, so that fractions differ.
	return a.storeRecords(n, func() int64 { return a.Clock().UnixMicro() })
}

// AddRecordsAt stores n generated records with one timestamp, in microseconds
// since the epoch: tied, or late. While the ingest is halted, they are lost.
func (a *Appliance) AddRecordsAt(n int, micros int64) []*Record {
	return a.storeRecords(n, func() int64 { return micros })
}

func (a *Appliance) storeRecords(n int, micros func() int64) []*Record {
	if a.system.cluster.Value()["ingest_enabled"] == false {
		return nil
	}
	a.records.Lock()
	defer a.records.Unlock()
	added := make([]*Record, n)
	for i := range added {
		added[i] = a.storeRecord(micros())
	}
	return added
}

// RecordHistory returns every stored record, in the order of storing, without those of a
// backlog. It is empty if Options.NoHistory is set.
func (a *Appliance) RecordHistory() []*Record {
	a.records.RLock()
	defer a.records.RUnlock()
	return slices.Clone(a.records.history)
}

// storeRecord stores a record. The store must be locked.
func (a *Appliance) storeRecord(micros int64) *Record {
	s := &a.records
	s.lastSeq += 1 + uint64(s.rand.IntN(3)) // ids have gaps
	r := a.makeRecord(s.lastSeq, micros)
	r.StoredAt = a.millis()
	at, _ := slices.BinarySearchFunc(s.stored, micros, func(r *Record, micros int64) int {
		return cmp.Or(cmp.Compare(r.Micros, micros), -1) // after those with the same timestamp
	})
	s.stored = slices.Insert(s.stored, at, r)
	if !a.options.NoHistory {
		s.history = append(s.history, r)
	}
	return r
}

// recordTypes are the types of generated records.
var recordTypes = [...]string{"~http", "~dns", "~ssl", "~flow"}

// mix returns a hash of a number.
func mix(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// recordHash returns the hash from which the record with a number is generated.
func (a *Appliance) recordHash(seq uint64) uint64 { return mix(seq ^ a.options.Seed<<48) }

// recordType returns the type of the record with a number without generating it.
func (a *Appliance) recordType(seq uint64) string {
	return recordTypes[a.recordHash(seq)%uint64(len(recordTypes))]
}

// makeRecord generates the record with a number. The same number and timestamp give the
// same bytes.
func (a *Appliance) makeRecord(seq uint64, micros int64) *Record {
	h := a.recordHash(seq)
	const store = 11
	r := &Record{
		ID:     fmt.Sprintf("AW%08x%011x", uint32(mix(h)), seq),
		Index:  fmt.Sprintf("%s-%d-%s-0", a.options.word(), store, time.UnixMicro(micros).UTC().Format("2006-1-2")),
		Type:   a.recordType(seq),
		Micros: micros,
		seq:    seq,
	}
	timestamp := strconv.FormatFloat(float64(micros)/1000, 'f', -1, 64)
	b := make([]byte, 0, 1024)
	b = fmt.Appendf(b, `{"_id":%q,"_index":%q,"_type":%q,"sort":[%s],"_source":{"timestamp":%s,"flowId":"%016x",`,
		r.ID, r.Index, r.Type, timestamp, timestamp, mix(h+1))
	client := int64(1 + mix(h+2)%devices.PerSensor)
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

// AddRecordBacklog adds n records whose timestamps are spread evenly over the time up to
// now. They are generated when they are read, take no memory, and are not part of the
// history. It returns an error if there is a backlog already.
func (a *Appliance) AddRecordBacklog(n int, over time.Duration) error {
	if n == 0 {
		return nil
	}
	a.records.Lock()
	defer a.records.Unlock()
	if a.records.backlog.n > 0 {
		return errors.New("there is a backlog of records already")
	}
	a.records.backlog = backlog{
		n:     n,
		first: a.Clock().UnixMicro() - over.Microseconds(),
		step:  over.Microseconds() / int64(n),
	}
	return nil
}

// micros returns the timestamp of the record with an index. It never decreases.
func (b backlog) micros(i int) int64 {
	jitter := int64(mix(uint64(i)) % uint64(max(1, b.step)))
	return b.first + int64(i)*b.step + jitter
}

// before returns the number of records with a timestamp before a given one.
func (b backlog) before(micros int64) int {
	return sort.Search(b.n, func(i int) bool { return b.micros(i) >= micros })
}

func (b backlog) ref(i int) recordRef {
	return recordRef{micros: b.micros(i), seq: backlogSeq + uint64(i)}
}
