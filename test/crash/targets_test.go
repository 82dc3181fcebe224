package crash

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ndrbridge/test/ledger"
	"ndrbridge/transform"
)

// targets are what the sinks deliver to. They outlive every bridge.
type targets struct {
	webhook, nats, kafka, file string
}

// startTargets starts a webhook receiver, a NATS server and a Kafka broker,
// which record in the ledger what reaches them.
func startTargets(t *testing.T, book *ledger.Ledger, file string) *targets {
	t.Helper()
	receive := func(sink string, body []byte) {
		e, err := transform.Parse(body)
		if err != nil {
			t.Errorf("%s: %v: %s", sink, err, body)
			return
		}
		book.Receive(sink, e)
	}
	return &targets{
		webhook: startWebhook(t, receive),
		nats:    startNATS(t, receive),
		kafka:   startKafka(t, receive),
		file:    file,
	}
}

func startWebhook(t *testing.T, receive func(sink string, body []byte)) (url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil { // a bridge that was killed in the middle of it
			return
		}
		receive("soc", body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func startNATS(t *testing.T, receive func(sink string, body []byte)) (url string) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server is not ready")
	}
	connection, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	js, err := jetstream.New(connection)
	if err != nil {
		t.Fatal(err)
	}
	// A consumer that drops nothing by itself, so that the judge sees what
	// deduplication would hide: the stream has next to none.
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "NDR", Subjects: []string{"ndr.>"}, Duplicates: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	consuming, err := consumer.Consume(func(m jetstream.Msg) { receive("bus", m.Data()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { consuming.Stop(); <-consuming.Closed() })
	return s.ClientURL()
}

func startKafka(t *testing.T, receive func(sink string, body []byte)) (broker string) {
	topics := []string{"ndr.detections", "ndr.audit", "ndr.records", "ndr.events"}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for {
			fetches := client.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			fetches.EachError(func(_ string, _ int32, err error) { t.Errorf("consume: %v", err) })
			fetches.EachRecord(func(r *kgo.Record) { receive("lake", r.Value) })
		}
	})
	t.Cleanup(func() { cancel(); consuming.Wait(); client.Close() })
	return cluster.ListenAddrs()[0]
}

// readFile records what the file holds.
func (s *targets) readFile(t *testing.T, book *ledger.Ledger) {
	t.Helper()
	file, err := os.Open(s.file)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for r := bufio.NewReader(file); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				t.Errorf("the file ends within a line: %s", line)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := transform.Parse(line[:len(line)-1])
		if err != nil {
			t.Errorf("%v: %s", err, line)
			continue
		}
		book.Receive("log", e)
	}
}

// await waits until everything has reached each sink that can be watched, and
// fails after a minute without progress.
func (s *targets) await(t *testing.T, book *ledger.Ledger, shown shown, b *bridge) {
	t.Helper()
	for _, sink := range []string{"soc", "bus", "lake"} {
		least, progress := -1, time.Now()
		for {
			missing, example := shown.missing(book, sink)
			if missing == 0 {
				break
			}
			if least < 0 || missing < least {
				least, progress = missing, time.Now()
			}
			if time.Since(progress) > time.Minute {
				t.Fatalf("%s: %d objects did not arrive, %s is one\n%s", sink, missing, example, b.output)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
