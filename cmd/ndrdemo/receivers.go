package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// receiver is a webhook that accepts events. For one event in a hundred it hangs up before
// responding, so that the event is sent again.
type receiver struct {
	arrivals *arrivals
	screen   *screen
	requests atomic.Int64
}

// ServeHTTP accepts one event in structured mode.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	const hangUpOn = 100
	body, err := io.ReadAll(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the sender is gone
	}
	e, err := r.arrivals.receive(sinkSOC, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.screen.event(e)
	if r.requests.Add(1)%hangUpOn == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}

// startBroker runs a NATS server with JetStream on a free loopback port, with the stream
// NDR under folder, and calls receive for each of its messages. stop ends the server and
// waits for it.
func startBroker(folder string, receive func(data []byte)) (url string, stop func(), err error) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: folder, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return "", nil, fmt.Errorf("create the NATS server: %w", err)
	}
	shutdown := func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	s.Start() // returns when the server listens
	const patience = 10 * time.Second
	if !s.ReadyForConnections(patience) {
		shutdown()
		return "", nil, fmt.Errorf("the NATS server was not ready within %s", patience)
	}
	stopConsumer, err := consume(s.ClientURL(), receive)
	if err != nil {
		shutdown()
		return "", nil, fmt.Errorf("consume the stream: %w", err)
	}
	return s.ClientURL(), func() {
		stopConsumer()
		shutdown()
	}, nil
}

// consume creates the stream NDR and calls receive for each of its messages until stop is
// called.
func consume(url string, receive func(data []byte)) (stop func(), err error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.>"}})
	if err != nil {
		return nil, err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	consuming, err := consumer.Consume(func(m jetstream.Msg) { receive(m.Data()) })
	if err != nil {
		return nil, err
	}
	return func() {
		consuming.Stop()
		<-consuming.Closed()
		conn.Close()
	}, nil
}

// follow calls receive for every complete line of a growing file, without the newline,
// until ctx is cancelled. It then reads the file to its end before it returns. receive may
// keep line.
func follow(ctx context.Context, file io.Reader, receive func(line []byte)) error {
	var line []byte // the part of the line that was read so far
	for lines, last := bufio.NewReader(file), false; ; {
		part, err := lines.ReadBytes('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			receive(line[:len(line)-1])
			line = nil // receive may keep it
		case !errors.Is(err, io.EOF):
			return err
		case last:
			return nil
		default:
			const pause = 100 * time.Millisecond
			select {
			case <-ctx.Done():
				last = true
			case <-time.After(pause):
			}
		}
	}
}
