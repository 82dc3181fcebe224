package siem_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// streamTopics are the topics of ndr.{stream}.
var streamTopics = []string{"ndr." + transform.StreamDetections, "ndr." + transform.StreamAudit, "ndr." + transform.StreamRecords, "ndr." + transform.StreamEvents}

// codecs are the compressions of record batches, by their numbers.
var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// maxBatch is the size of the largest batch of records that a broker accepts.
const maxBatch = 1 << 20

// broker is a stand-in for brokers that accept TLS and SASL only, a user with the secret of
// the recipe, and batches of a compression for topics that exist.
type broker struct {
	username, mechanism string
	topics              []string
	compression         string
}

func (b broker) serve(t *testing.T, r *recipe) *received {
	password := secretOf(r.Name)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, b.topics...),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{r.certificate}}), kfake.EnableSASL(), kfake.Superuser(b.mechanism, b.username, password))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		assert.NoError(t, b.check(request.(*kmsg.ProduceRequest)))
		return nil, nil, false
	})
	r.Kafka.Brokers = cluster.ListenAddrs()
	r.Kafka.TLS.CAFile = r.authority
	got := new(received)
	got.read = func() { b.read(t, r, cluster, password, got) }
	return got
}

// check reports what brokers refuse, or lose.
func (b broker) check(request *kmsg.ProduceRequest) error {
	if request.Acks != -1 {
		return fmt.Errorf("acknowledgements of %d replicas", request.Acks)
	}
	for _, topic := range request.Topics {
		for _, p := range topic.Partitions {
			attributes := int(binary.BigEndian.Uint16(p.Records[21:]))
			if codec := codecs[attributes&7]; codec != b.compression || len(p.Records) > maxBatch {
				return fmt.Errorf("%s: %d bytes of compression %s", topic.Topic, len(p.Records), codec)
			}
		}
	}
	return nil
}

// read reads the records of all topics, with another client.
func (b broker) read(t *testing.T, r *recipe, cluster *kfake.Cluster, password string, got *received) {
	t.Helper()
	stored := 0
	for _, topic := range b.topics {
		stored += int(cluster.PartitionInfos(topic)[0].HighWatermark)
	}
	login := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: b.username, Pass: password}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: b.username, Pass: password}.AsSha256Mechanism(),
	}
	pool := x509.NewCertPool()
	pool.AddCert(r.certificate.Leaf)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(b.topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(10*time.Millisecond), kgo.SASL(login[b.mechanism]), kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := 0; n < stored; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err0(), n, "of", stored, "records")
		for _, record := range fetches.Records() {
			n++
			got.add(message(record), string(record.Value))
		}
	}
}

// message returns a record as text.
func message(record *kgo.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "topic: %s\nkey: %s\n", record.Topic, record.Key)
	for _, h := range slices.SortedFunc(slices.Values(record.Headers), func(a, b kgo.RecordHeader) int { return strings.Compare(a.Key, b.Key) }) {
		fmt.Fprintf(&b, "%s: %s\n", h.Key, h.Value)
	}
	fmt.Fprintf(&b, "\n%s", record.Value)
	return b.String()
}
