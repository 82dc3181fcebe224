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
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	first, second := cluster.ListenAddrs()[0], cluster.ListenAddrs()[1]
	seeds := []string{loopback.Silent(t), loopback.Closed(t), first}
	client := kafkaconn.NewClient(&kafkaconn.Dialer{Brokers: seeds}, time.Minute, seeds...)
	t.Cleanup(client.Close)
	connect := func() {
		t.Helper()
		if _, err := client.Connect(t.Context(), t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if connect(); client.Addr.String() != first {
		t.Errorf("connected to %s, not to the seed that answers, %s", client.Addr, first)
	}
	require.NoError(t, cluster.RemoveNode(0))
	if connect(); client.Addr.String() != second {
		t.Errorf("connected to %s, not to the broker that the cluster advertised, %s", client.Addr, second)
	}
}
