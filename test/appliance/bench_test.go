package appliance_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

// nowhere is an answer that nobody reads.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

// BenchmarkSearchPage is a page of 1000 out of the midst of 100,000.
func BenchmarkSearchPage(b *testing.B) {
	a := standin.New(standin.Options{Now: still, NoHistory: true})
	a.AddBacklog(100_000, 24*time.Hour)
	body := strings.Replace(sorted("mod_time", "asc", "id", "asc"), "{", fmt.Sprintf(`{"limit":1000,"mod_time":%d,`, now-12*60*minute), 1)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "/api/v1/detections/search", strings.NewReader(body))
		r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
		r.Header.Set("Content-Type", "application/json")
		a.ServeHTTP(nowhere{make(http.Header)}, r)
	}
}

// BenchmarkUpdate is a change of one among 100,000.
func BenchmarkUpdate(b *testing.B) {
	a := standin.New(standin.Options{NoHistory: true})
	versions := a.AddBacklog(100_000, 24*time.Hour)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		require.NoError(b, a.Update(func(d *standin.Detection) { d.Status = "new" }, versions[i%len(versions)].ID))
		i += 7919
	}
}

// BenchmarkRecordPage is a page of 1000 out of a backlog of 1,000,000 records.
func BenchmarkRecordPage(b *testing.B) {
	for name, body := range map[string]string{
		"a search of a minute":            fmt.Sprintf(`{"from":%d,"until":%d,"limit":1000}`, now-12*60*minute, now-12*60*minute+minute),
		"a search of everything":          `{"from":"-25h","limit":1000,"context_ttl":"1m"}`,
		"an offset deep in everything":    `{"from":"-25h","limit":1000,"offset":500000}`,
		"the end of everything, reversed": `{"from":"-25h","limit":1000,"sort":[{"field":"timestamp","direction":"desc"}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			a := standin.New(standin.Options{Now: still})
			require.NoError(b, a.AddRecordBacklog(1_000_000, 24*time.Hour))
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/api/v1/records/search", strings.NewReader(body))
				r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
				r.Header.Set("Content-Type", "application/json")
				a.ServeHTTP(nowhere{make(http.Header)}, r)
			}
		})
	}
}
