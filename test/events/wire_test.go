package events

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"time"

	natsclient "github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ndrbridge/sinks/kafka"
	"ndrbridge/sinks/nats"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/natsserver"
	"ndrbridge/transform"
)

// patience is the time limit for sending an event and receiving it.
const patience = 20 * time.Second

// through sends events through a real sink to a real receiver, and returns the lines of the
// header that arrived.
var through = map[string]func(ctx context.Context, mode transform.Mode, events ...transform.Event) ([]string, error){
	"kafka": throughKafka, "nats": throughNATS, "webhook": throughWebhook,
}

func throughKafka(ctx context.Context, mode transform.Mode, events ...transform.Event) ([]string, error) {
	const topic = "ndr.detections"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	sink, err := kafka.New(kafka.Options{Brokers: cluster.ListenAddrs(), Topic: "ndr.{stream}", Mode: mode})
	if err != nil {
		return nil, err
	}
	defer sink.Close()
	if err := sink.Send(ctx, events); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := client.PollRecords(ctx, 1).Records()
	if len(records) == 0 {
		return nil, fmt.Errorf("no record arrived: %w", context.Cause(ctx))
	}
	got := []string{"topic: " + topic, "key: " + string(records[0].Key)}
	for _, h := range records[0].Headers {
		got = append(got, h.Key+": "+string(h.Value))
	}
	return got, nil
}

func throughNATS(ctx context.Context, mode transform.Mode, events ...transform.Event) ([]string, error) {
	folder, err := os.MkdirTemp("", "events")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	s, stop, err := natsserver.Start(folder, nil)
	if err != nil {
		return nil, err
	}
	defer stop()
	conn, err := natsclient.Connect(s.ClientURL())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	got, err := conn.SubscribeSync("ndr.>")
	if err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	sink, err := nats.New(nats.Options{
		Sink: "bus", URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{appliance}.{stream}.{action}", CreateStream: true, Mode: mode,
	})
	if err != nil {
		return nil, err
	}
	defer sink.Close()
	if err := sink.Send(ctx, events); err != nil {
		return nil, err
	}
	msg, err := got.NextMsgWithContext(ctx)
	if err != nil {
		return nil, err
	}
	return append([]string{"subject: " + msg.Subject}, lines(http.Header(msg.Header))...), nil
}

func throughWebhook(ctx context.Context, mode transform.Mode, events ...transform.Event) ([]string, error) {
	got := make(chan []string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		header := slices.DeleteFunc(lines(r.Header), func(line string) bool {
			name, _, _ := strings.Cut(line, ":")
			return !strings.HasPrefix(name, "ce-") && name != "Content-Type"
		})
		select {
		case got <- append([]string{r.Method + " " + r.URL.Path + " " + r.Proto}, header...):
		default:
		}
	}))
	defer receiver.Close()
	sink, err := webhook.New(webhook.Options{URL: receiver.URL + "/events", Mode: mode})
	if err != nil {
		return nil, err
	}
	defer sink.Close()
	if err := sink.Send(ctx, events); err != nil {
		return nil, err
	}
	return <-got, nil
}

// lines returns the fields of a header in order, with the attributes last and in lower case,
// as in CloudEvents.
func lines(header http.Header) []string {
	var all []string
	for name, values := range header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "ce-") {
			name = lower
		}
		all = append(all, name+": "+strings.Join(values, ", "))
	}
	slices.Sort(all)
	return all
}
