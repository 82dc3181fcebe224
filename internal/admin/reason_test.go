package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
)

func TestTheKindOfAReason(t *testing.T) {
	for _, c := range []struct{ name, reason, want string }{
		{"a status stays", "POST https://hooks.example/v1/x: 422 Unprocessable Entity: no", "POST https://hooks.example/v1/x: 422 Unprocessable Entity: no"},
		{"a size does not", "the event has 1048577 bytes, and at most 1048576B are allowed", "the event has <number> bytes, and at most <number>B are allowed"},
		{"times", "2026-01-31T08:00:00.123Z is before 2026-01-30 07:00", "<time> is before <time>"},
		{"UUIDs and other ids", "document 5f0c2f3e-91a4-4d6b-8a53-2d1c3b4a5e6f in AVx3kQmZ81LpR0", "document <id> in <id>"},
		{"long words without a digit stay", "misconfiguration of reasonablelongwords", "misconfiguration of reasonablelongwords"},
		{"a time at the end of a sentence", "it is from 2026-01-31T08:00:00+01:00. Later: 2026-01-31", "it is from <time>. Later: <time>"},
		{"the address of a URL stays", "POST to http://10.0.0.7:8088: 413", "POST to http://10.0.0.7:8088: 413"},
		{"addresses", "write tcp 10.0.0.7:51234->10.0.0.8:9092", "write tcp <number>-><number>"},
		{"digits of names", "HTTP2 of k8s, x509", "HTTP2 of k8s, x<number>"},
		{"a number that begins with a status", "offset 4220 of 42", "offset <number> of <number>"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, admin.ReasonKind(c.reason), c.want)
		})
	}
	long := admin.ReasonKind(strings.Repeat("é1 ", 10_000))
	assert.True(t, len(long) <= 310 && strings.HasSuffix(long, "…"), len(long), "bytes", long)
}

func FuzzReasonKind(f *testing.F) {
	f.Add("event 17 of 2026-01-31T08:00:00Z: 422 \xff", 3)
	f.Fuzz(func(t *testing.T, reason string, n int) {
		kind := admin.ReasonKind(reason)
		assert.True(t, len(kind) <= 310, len(kind), "bytes")
		if len(reason) > 100 {
			return
		}
		// What differs in a number is of one kind.
		a, b := admin.ReasonKind(fmt.Sprintf("%s %d", reason, 10_000)), admin.ReasonKind(fmt.Sprintf("%s %d", reason, 10_000+uint16(n)))
		assert.True(t, a == b || len(a) >= 300, a, b)
	})
}

func BenchmarkReasonKind(b *testing.B) {
	for b.Loop() {
		admin.ReasonKind("POST https://splunk.example:8088/services/collector: 400 Bad Request: event 17: field risk_score of document 5f0c2f3e-91a4-4d6b-8a53-2d1c3b4a5e6f has the type text, and 2026-01-31T08:00:00Z is expected")
	}
}
