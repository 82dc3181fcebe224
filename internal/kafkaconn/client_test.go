package kafkaconn_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

func TestConnectTriesAllBrokers(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	seeds := append([]string{loopback.Silent(t), loopback.Closed(t)}, cluster.ListenAddrs()...)
	client := kafkaconn.NewClient(&kafkaconn.Dialer{Brokers: seeds}, time.Minute, seeds...)
	t.Cleanup(client.Close)
	if _, err := client.Connect(t.Context(), t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if client.Addr.String() != seeds[2] {
		t.Errorf("connected to %s, not to the seed that answers, %s", client.Addr, seeds[2])
	}
}
