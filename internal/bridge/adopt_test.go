package bridge_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/bridge"
	"ndrbridge/internal/cluster"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// adopting is a state of a single bridge with two appliances and a cluster that is to adopt
// it.
func adopting(t *testing.T) (single, clustered string, natsURL string, soc *inbox) {
	t.Helper()
	_, hq := startAppliance(t, 12)
	_, dc := startAppliance(t, 7)
	soc = startInbox(t)
	single = configuration(t, hq, webhookSink("soc", soc.URL))
	appliances, _, _ := strings.Cut(single[strings.Index(single, "  - name: hq"):], "sinks:")
	single = strings.Replace(single, "sinks:", strings.NewReplacer("name: hq", "name: dc", hq, dc).Replace(appliances)+"sinks:", 1)
	natsURL = loopback.NATS(t, nil).ClientURL()
	clustered = fmt.Sprintf("cluster: {name: prod, member: a, shards: 4, replicas: 1, nats: {url: %q}}\n", natsURL) + single
	return single, clustered, natsURL, soc
}

func adopt(t *testing.T, clustered string) error {
	t.Helper()
	config := parse(t, clustered)
	return bridge.Adopt(t.Context(), config, config.State, func(int64) {})
}

// deliverAndAdopt runs the single bridge of adopting until it has delivered everything, and has the
// cluster adopt its state. It returns the cluster's storage.
func deliverAndAdopt(t *testing.T, single, clustered, natsURL string, soc *inbox) *replicated.JetStream {
	t.Helper()
	r := run(t, single)
	await(t, "the backlogs", func() bool { return soc.count("") == 19 })
	await(t, "the sink's cursor", func() bool { return sinkStatus(t, r.control(t), "soc").LagEvents == 0 })
	r.stop()
	require.NoError(t, adopt(t, clustered))
	return openStorage(t, natsURL, "prod", 4)
}

// openStorage opens the streams of a cluster until the test ends.
func openStorage(t *testing.T, natsURL, name string, shards int) *replicated.JetStream {
	t.Helper()
	nc, err := nats.Connect(natsURL)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	storage, err := replicated.OpenJetStream(t.Context(), nc, replicated.JetStreamOptions{Name: name, Shards: shards, Replicas: 1, Create: true})
	require.NoError(t, err)
	t.Cleanup(func() { storage.Close() })
	return storage
}

func TestAClusterAdoptsTheStateOfASingleBridge(t *testing.T) {
	single, clustered, natsURL, soc := adopting(t)
	storage := deliverAndAdopt(t, single, clustered, natsURL, soc)
	config := parse(t, single)
	before, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true})
	require.NoError(t, err)
	defer before.Close()
	for n := range 4 {
		path := filepath.Join(t.TempDir(), "state.db")
		if status := copyShard(t, storage, n, path); !status.Released {
			t.Errorf("the log was not released: %+v", status)
		}
		store, err := checkpoint.Open(path, checkpoint.Options{ReadOnly: true})
		require.NoError(t, err)
		defer store.Close()
		for _, name := range []string{"hq", "dc"} {
			source := checkpoint.Source{Appliance: name, Stream: "detections"}
			want, err := before.Position(t.Context(), source)
			if err != nil || len(want) == 0 {
				t.Fatalf("%s: %q, %v", name, want, err)
			}
			if configs.ShardOf(name, 4) != n {
				want = nil
			}
			if got, err := store.Position(t.Context(), source); err != nil || string(got) != string(want) {
				t.Errorf("shard %d: the position of %s is %q (%v), want %q", n, name, got, err, want)
			}
		}
		stats, err := store.Stats(t.Context())
		if _, known := stats.Sinks["soc"]; err != nil || !known {
			t.Errorf("shard %d knows the sinks %v (%v)", n, stats.Sinks, err)
		}
	}
	if err := adopt(t, clustered); !errors.Is(err, cluster.ErrNotNew) {
		t.Errorf("it was adopted a second time: %v", err)
	}
}

func TestAStateWithEventsToDeliverIsNotAdopted(t *testing.T) {
	single, clustered, natsURL, soc := adopting(t)
	soc.Answer(http.StatusServiceUnavailable)
	r := run(t, single)
	await(t, "events that wait", func() bool { return sinkStatus(t, r.control(t), "soc").LagEvents == 19 })
	if err := adopt(t, clustered); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("the state of a running bridge was adopted: %v", err)
	}
	r.stop()
	if err := adopt(t, clustered); err == nil || !strings.Contains(err.Error(), "the sink soc has yet to get 19 events") {
		t.Errorf("it was adopted: %v", err)
	}
	nc, err := nats.Connect(natsURL)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	if _, err := js.Stream(t.Context(), "NDR_prod_00"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("streams were created: %v", err)
	}
}
