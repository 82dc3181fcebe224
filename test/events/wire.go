package main

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

// message is a received message: the lines of its header and its body.
type message struct {
	header []string
	body   []byte
}

// through sends events through a real sink to a real receiver.
var through = map[string]func(ctx context.Context, mode transform.Mode, events ...transform.Event) (message, error){
	"kafka": throughKafka, "nats": throughNATS, "webhook": throughWebhook,
}

func throughKafka(ctx context.Context, mode transform.Mode, events ...transform.Event) (message, error) {
	const topic = "ndr.detections"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		return message{}, err
	}
	defer cluster.Close()
	sink, err := kafka.New(kafka.Options{Brokers: cluster.ListenAddrs(), Topic: "ndr.{stream}", Mode: mode})
	if err != nil {
		return message{}, err
	}
	defer sink.Close()
	if err := sink.Send(ctx, events); err != nil {
		return message{}, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return message{}, err
	}
	defer client.Close()
	records := client.PollRecords(ctx, 1).Records()
	if len(records) == 0 {
		return message{}, fmt.Errorf("no record arrived: %w", context.Cause(ctx))
	}
	got := message{header: []string{"topic: " + topic, "key: " + string(records[0].Key)}, body: records[0].Value}
	for _, h := range records[0].Headers {
		got.header = append(got.header, h.Key+": "+string(h.Value))
	}
	return got, nil
}

func throughNATS(ctx context.Context, mode transform.Mode, events ...transform.Event) (message, error) {
	folder, err := os.MkdirTemp("", "events")
	if err != nil {
		return message{}, err
	}
	defer os.RemoveAll(folder)
	s, stop, err := natsserver.Start(folder, nil)
	if err != nil {
		return message{}, err
	}
	defer stop()
	conn, err := natsclient.Connect(s.ClientURL())
	if err != nil {
		return message{}, err
	}
	defer conn.Close()
	got, err := conn.SubscribeSync("ndr.>")
	if err != nil {
		return message{}, err
	}
	if err := conn.Flush(); err != nil {
		return message{}, err
	}
	sink, err := nats.New(nats.Options{
		Sink: "bus", URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{appliance}.{stream}.{action}", CreateStream: true, Mode: mode,
	})
	if err != nil {
		return message{}, err
	}
	defer sink.Close()
	if err := sink.Send(ctx, events); err != nil {
		return message{}, err
	}
	msg, err := got.NextMsgWithContext(ctx)
	if err != nil {
		return message{}, err
	}
	return message{header: append([]string{"subject: " + msg.Subject}, lines(http.Header(msg.Header))...), body: msg.Data}, nil
}

func throughWebhook(ctx context.Context, mode transform.Mode, events ...transform.Event) (message, error) {
	got := make(chan message, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		header := slices.DeleteFunc(lines(r.Header), func(line string) bool {
			name, _, _ := strings.Cut(line, ":")
			return !strings.HasPrefix(name, "ce-") && name != "Content-Type"
		})
		select {
		case got <- message{append([]string{r.Method + " " + r.URL.Path + " " + r.Proto}, header...), body}:
		default:
		}
	}))
	defer receiver.Close()
	sink, err := webhook.New(webhook.Options{URL: receiver.URL + "/events", Mode: mode})
	if err != nil {
		return message{}, err
	}
	defer sink.Close()
	if err := sink.Send(ctx, events); err != nil {
		return message{}, err
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
