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

// consume creates the stream NDR, unless the bridge has, and calls receive for each of its
// messages until ctx is cancelled.
func consume(ctx context.Context, url string, receive func(data []byte)) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.>"}})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // the bridge has created it meanwhile
		stream, err = js.Stream(ctx, "NDR")
	}
	if err != nil {
		return fmt.Errorf("create the stream: %w", err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("consume the stream: %w", err)
	}
	consuming, err := consumer.Consume(func(m jetstream.Msg) { receive(m.Data()) })
	if err != nil {
		return fmt.Errorf("consume the stream: %w", err)
	}
	<-ctx.Done()
	consuming.Stop()
	<-consuming.Closed()
	return nil
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
