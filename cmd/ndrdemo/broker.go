package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startBroker runs a NATS server with JetStream on a free loopback port. It keeps its
// streams under folder. stop ends the server and waits for it.
func startBroker(folder string) (url string, stop func(), err error) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: folder, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return "", nil, fmt.Errorf("create the NATS server: %w", err)
	}
	stop = func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	s.Start() // returns when the server listens
	const patience = 10 * time.Second
	if !s.ReadyForConnections(patience) {
		stop()
		return "", nil, fmt.Errorf("the NATS server was not ready within %s", patience)
	}
	return s.ClientURL(), stop, nil
}

// consumeStream calls receive for every message of a stream, in order, until ctx is
// cancelled, which is not an error. It waits until the stream exists.
func consumeStream(ctx context.Context, url, stream string, receive func(data []byte) error) (err error) {
	defer func() {
		if ctx.Err() != nil {
			err = nil
		}
	}()
	conn, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	consumer, err := orderedConsumer(ctx, js, stream)
	if err != nil {
		return fmt.Errorf("consume stream %s: %w", stream, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("consume stream %s: %w", stream, err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read stream %s: %w", stream, err)
		}
		if err := receive(m.Data()); err != nil {
			return fmt.Errorf("stream %s: %w", stream, err)
		}
	}
}

// orderedConsumer waits until the stream exists and returns a consumer of it.
func orderedConsumer(ctx context.Context, js jetstream.JetStream, stream string) (jetstream.Consumer, error) {
	const pause = 100 * time.Millisecond
	for {
		consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return consumer, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}
