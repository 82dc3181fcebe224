package kafkaconn_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/require"
)

// TestSaltsOfABrokerAreNotKept authenticates often with a broker that sends a large new
// salt each time.
func TestSaltsOfABrokerAreNotKept(t *testing.T) {
	const logins, size = 10, 500_000
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer broker.Close()
	salts := 0
	broker.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		return r.ResponseKind(), nil, true
	})
	broker.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer.SASLAuthBytes = []byte("e=other-error")
		if _, nonce, first := strings.Cut(string(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes), ",r="); first && !strings.Contains(nonce, ",p=") {
			salts++
			salt := make([]byte, size)
			_, _ = rand.Read(salt)
			answer.SASLAuthBytes = fmt.Appendf(nil, "r=%sx,s=%s,i=4096", nonce, base64.StdEncoding.EncodeToString(salt))
		}
		return answer, nil, true
	})
	login, err := kafkaconn.NewLogin(kafkaconn.SASL{Mechanism: "scram-sha-256", Username: "ndr", Password: "sesame"})
	require.NoError(t, err)
	dialer := kafkaconn.Dialer{Brokers: broker.ListenAddrs(), Login: login}
	used := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before uint64
	for i := range logins {
		client := kafkaconn.NewClient(&dialer, time.Minute, broker.ListenAddrs()...)
		if _, err := client.Connect(t.Context(), t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "other-error") {
			t.Fatalf("error %v", err)
		}
		client.Close()
		if i == 0 {
			before = used()
		}
	}
	if salts < logins { // a login is tried again if the busy machine delays its answer
		t.Fatalf("%d salts for %d logins", salts, logins)
	}
	// On a busy machine the broker still has answers of connections that were closed.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		grown := int64(used()) - int64(before)
		if grown <= logins*size/3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %d salts of %d bytes, %d bytes more are in use", salts, size, grown)
		}
	}
	runtime.KeepAlive(login)
}
