package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	kafkago "github.com/segmentio/kafka-go"

	"ndrbridge/transform"
)

// client delivers the events of a file with the bare client libraries and prints figures as
// JSON. The arguments are a drain's name, the file, and the address of each target. The
// figures do not include reading the file: the events are in memory and encoded.
func client(args []string, stdout io.Writer) error {
	if len(args) < 2 {
		return fmt.Errorf("%w: a client needs a drain and a file", errUsage)
	}
	i := slices.IndexFunc(allDrains, func(d drain) bool { return d.name == args[0] })
	if i < 0 || len(args) != 2+len(allDrains[i].targets) {
		return fmt.Errorf("%w: drain %q with %d addresses", errUsage, args[0], len(args)-2)
	}
	events, err := readEvents(args[1])
	if err != nil {
		return err
	}
	targets, addresses := allDrains[i].targets, args[2:]

	began, spent := time.Now(), cpuTime()
	var sending sync.WaitGroup
	errs := make([]error, len(targets))
	for i, t := range targets {
		sending.Go(func() { errs[i] = t.bare(context.Background(), addresses[i], events) })
	}
	sending.Wait()
	f := figures{Seconds: time.Since(began).Seconds(), CPU: (cpuTime() - spent).Seconds()}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(f)
}

// readEvents reads a file with one event a line.
func readEvents(path string) ([]transform.Event, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var events []transform.Event
	for line := range bytes.Lines(file) {
		e, err := transform.Parse(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(events)+1, err)
		}
		events = append(events, e)
	}
	return events, nil
}

// cpuTime returns the CPU time of this process, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// produce uses the simplest API of kafka-go: one request for each batch.
func produce(ctx context.Context, broker, compression string, events []transform.Event) error {
	var codec kafkago.Compression
	if err := codec.UnmarshalText([]byte(compression)); err != nil {
		return err
	}
	c := &kafkago.Client{Addr: kafkago.TCP(broker), Transport: &kafkago.Transport{MetadataTopics: []string{topic}}}
	header := []kafkago.Header{{Key: "content-type", Value: []byte(transform.ContentTypeStructured)}}
	records := make([]kafkago.Record, 0, batch)
	for some := range slices.Chunk(events, batch) {
		records = records[:0]
		for _, e := range some {
			records = append(records, kafkago.Record{
				Time: e.RecordedTime, Key: kafkago.NewBytes([]byte(e.PartitionKey)), Value: kafkago.NewBytes(e.Structured()), Headers: header,
			})
		}
		answer, err := c.Produce(ctx, &kafkago.ProduceRequest{
			Topic: topic, RequiredAcks: kafkago.RequireAll, Compression: codec, Records: kafkago.NewRecordReader(records...),
		})
		if err != nil {
			return err
		}
		if answer.Error != nil {
			return answer.Error
		}
	}
	return nil
}

// publish creates the stream, publishes a batch and waits for its acknowledgements.
func publish(ctx context.Context, url string, events []transform.Event) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(batch))
	if err != nil {
		return err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subject}}); err != nil {
		return err
	}
	acks := make([]jetstream.PubAckFuture, 0, batch)
	for some := range slices.Chunk(events, batch) {
		acks = acks[:0]
		for _, e := range some {
			ack, err := js.PublishMsgAsync(&nats.Msg{
				Subject: subject,
				Data:    e.Structured(),
				Header: nats.Header{
					nats.MsgIdHdr:  {"bus " + e.Source + " " + e.ID},
					"Content-Type": {transform.ContentTypeStructured},
				},
			}, jetstream.WithStallWait(time.Minute))
			if err != nil {
				return err
			}
			acks = append(acks, ack)
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// post sends one event a request, one request after the other.
// post sends as many requests at a time as the bridge does by default.
func post(ctx context.Context, url string, events []transform.Event) error {
	const inFlight = 32
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxConnsPerHost = inFlight, inFlight
	c := &http.Client{Transport: transport}
	defer c.CloseIdleConnections()
	var next atomic.Int64
	var workers sync.WaitGroup
	errs := make([]error, inFlight)
	for n := range errs {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(events)) && errs[n] == nil; i = next.Add(1) - 1 {
				errs[n] = postOne(ctx, c, url, transform.ContentTypeStructured, events[i].Structured())
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

func postBatches(ctx context.Context, url string, events []transform.Event, size int) error {
	var body []byte
	for some := range slices.Chunk(events, size) {
		body = append(body[:0], '[')
		for _, e := range some {
			body = append(append(body, e.Payload()...), ',')
		}
		body[len(body)-1] = ']'
		if err := postOne(ctx, http.DefaultClient, url, transform.ContentTypeBatch, body); err != nil {
			return err
		}
	}
	return nil
}

func postOne(ctx context.Context, c *http.Client, url, contentType string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", contentType)
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the receiver answered %s", answer.Status)
	}
	return nil
}

// write appends a batch to a file and syncs it.
func write(_ context.Context, path string, events []transform.Event) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var lines []byte
	for some := range slices.Chunk(events, batch) {
		lines = lines[:0]
		for _, e := range some {
			lines = append(append(lines, e.Structured()...), '\n')
		}
		if _, err := file.Write(lines); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
	}
	return nil
}
