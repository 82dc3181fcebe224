package kafkaconn_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// TestSaltsOfABrokerAreNotKept authenticates often with a broker that sends a large new
// salt each time.
func TestSaltsOfABrokerAreNotKept(t *testing.T) {
	const logins, size = 10, 500_000
	login, err := kafkaconn.NewLogin(kafkaconn.SASL{Mechanism: "scram-sha-256", Username: "ndr", Password: "sesame"})
	require.NoError(t, err)
	used := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before uint64
	for i := range logins {
		session, message, err := login.Start(t.Context())
		require.NoError(t, err)
		_, nonce, _ := strings.Cut(string(message), ",r=")
		salt := make([]byte, size)
		_, _ = rand.Read(salt)
		_, _, err = session.Next(t.Context(), fmt.Appendf(nil, "r=%sx,s=%s,i=4096", nonce, base64.StdEncoding.EncodeToString(salt)))
		require.NoError(t, err)
		if i == 0 {
			before = used()
		}
	}
	grown := int64(used()) - int64(before)
	assert.True(t, grown <= logins*size/3, logins, "salts of", size, "bytes", grown, "bytes more are in use")
	runtime.KeepAlive(login)
}
