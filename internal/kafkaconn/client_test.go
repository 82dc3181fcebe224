package kafkaconn_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// signingIn returns a client of a broker to which it signs in with a mechanism of a name; answer
// sets the broker's answer to a message.
func signingIn(t *testing.T, s kafkaconn.SASL, name string, answer func(sent []byte, answer *kmsg.SASLAuthenticateResponse)) *kafkaconn.Client {
	t.Helper()
	broker := require.Value(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(broker.Close)
	broker.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		assert.Equal(t, r.(*kmsg.SASLHandshakeRequest).Mechanism, name, "the mechanism is")
		return r.ResponseKind(), nil, true
	})
	broker.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		response := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, response)
		return response, nil, true
	})
	login := require.Value(kafkaconn.NewLogin(s))(t)
	client := kafkaconn.NewClient(&kafkaconn.Dialer{Brokers: broker.ListenAddrs(), Login: login}, 10*time.Second, broker.ListenAddrs()...)
	t.Cleanup(client.Close)
	return client
}

func TestConnectTriesAllBrokers(t *testing.T) {
	t.Parallel()
	cluster := require.Value(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	seeds := append([]string{loopback.Silent(t), loopback.Closed(t)}, cluster.ListenAddrs()...)
	client := kafkaconn.NewClient(&kafkaconn.Dialer{Brokers: seeds}, time.Minute, seeds...)
	t.Cleanup(client.Close)
	require.Value(client.Connect(t.Context(), t.Context(), "x"))(t)
	assert.Equal(t, client.Addr.String(), seeds[2], "connected to", client.Addr)
}
