package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
)

// The topic and subject in Kafka and NATS. One topic with one partition and one subject
// minimise the work of the bare clients.
const (
	topic   = "ndr.detections"
	stream  = "NDR"
	subject = "ndr.hq.detections"
)

// receive receives events until stdin ends. The arguments are a kind of receiver and an
// empty directory. It prints its address on a line, and for each line of stdin the number of
// events received.
func receive(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("%w: a receiver needs a kind and a directory", errUsage)
	}
	var (
		address string
		count   func() (int64, error)
		stop    func()
		err     error
	)
	switch args[0] {
	case "kafka":
		address, count, stop, err = receiveKafka()
	case "nats":
		address, count, stop, err = receiveNATS(args[1])
	case "http":
		address, count, stop, err = receiveHTTP()
	default:
		err = fmt.Errorf("%w: unknown receiver %q", errUsage, args[0])
	}
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintln(stdout, address)
	for asked := bufio.NewScanner(stdin); asked.Scan(); {
		n, err := count()
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, n)
	}
	return nil
}

func receiveKafka() (address string, count func() (int64, error), stop func(), err error) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		return "", nil, nil, err
	}
	count = func() (int64, error) {
		partition := c.PartitionInfo(topic, 0)
		if partition == nil {
			return 0, errors.New("the topic no longer exists")
		}
		return partition.HighWatermark, nil
	}
	return c.ListenAddrs()[0], count, c.Close, nil
}

func receiveNATS(dir string) (address string, count func() (int64, error), stop func(), err error) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return "", nil, nil, err
	}
	s.Start()
	stop = func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	info, err := makeStream(s)
	if err != nil {
		stop()
		return "", nil, nil, err
	}
	count = func() (int64, error) {
		i, err := info()
		if err != nil {
			return 0, err
		}
		return int64(i.State.Msgs), nil
	}
	return s.ClientURL(), count, stop, nil
}

// makeStream creates the stream like the bridge and returns a handle to it.
func makeStream(s *server.Server) (info func() (*jetstream.StreamInfo, error), err error) {
	const patience = 10 * time.Second
	if !s.ReadyForConnections(patience) {
		return nil, errors.New("the NATS server does not start")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	made, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subject}, Storage: jetstream.FileStorage})
	if err != nil {
		return nil, err
	}
	return func() (*jetstream.StreamInfo, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return made.Info(ctx)
	}, nil
}

func receiveHTTP() (address string, count func() (int64, error), stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, nil, err
	}
	var received atomic.Int64
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := countEvents(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		received.Add(n)
		w.WriteHeader(http.StatusNoContent)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(l) })
	stop = func() {
		s.Close()
		serving.Wait()
	}
	return "http://" + l.Addr().String(), func() (int64, error) { return received.Load(), nil }, stop, nil
}

// eventStart is the beginning of every event of the bridge in structured form.
const eventStart = `{"specversion":`

// countEvents reads a body and returns the number of events in it.
func countEvents(body io.Reader) (n int64, err error) {
	block := make([]byte, 64<<10)
	kept := 0 // from the previous block: an event may span two
	for {
		read, err := body.Read(block[kept:])
		part := block[:kept+read]
		n += int64(bytes.Count(part, []byte(eventStart)))
		kept = copy(block, part[max(0, len(part)-len(eventStart)+1):])
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
