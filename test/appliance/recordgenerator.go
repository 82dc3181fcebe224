package appliance

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

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
func (a *Appliance) makeRecord(seq uint64, micros int64, withID bool) *Record {
	h := a.recordHash(seq)
	const store = 11
	r := &Record{
		Index:  fmt.Sprintf("%s-%d-%s-0", a.options.word(), store, time.UnixMicro(micros).UTC().Format("2006-1-2")),
		Type:   a.recordType(seq),
		Micros: micros,
		seq:    seq,
	}
	timestamp := strconv.FormatFloat(float64(micros)/1000, 'f', -1, 64)
	b := make([]byte, 0, 1024)
	b = append(b, '{')
	if withID {
		r.ID = fmt.Sprintf("AW%08x%011x", uint32(mix(h)), seq)
		b = fmt.Appendf(b, `"_id":%q,`, r.ID)
	}
	b = fmt.Appendf(b, `"_index":%q,"_type":%q,"sort":[%s],"_source":{"timestamp":%s,"flowId":"%016x",`,
		r.Index, r.Type, timestamp, timestamp, mix(h+1))
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
	// These numbers exceed a double's precision or end in a zero: a client must keep them
	// as written.
	b = fmt.Appendf(b, `"reqBytes":%d,"rspBytes":%d,"processingTime":%d.%02d0,"roundTripTime":0.250}}`,
		h%3000, 1<<53+1+h>>40, h%300, h>>16%100)
	r.JSON = slices.Clip(b)
	return r
}
