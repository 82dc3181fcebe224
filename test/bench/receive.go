package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"

	"ndrbridge/test/natsserver"
)

// The topic and subject in Kafka and NATS. One topic with one partition and one subject
// minimise the work of the bare clients.
const (
	topic   = "ndr.detections"
	stream  = "NDR"
	subject = "ndr.hq.detections"
)

// receiver is what a sink and a bare client deliver to.
type receiver struct {
	address string                // or a path
	count   func() (int64, error) // returns the number of events received
	stop    func()
}

func receiveKafka(string) (*receiver, error) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		return nil, err
	}
	return &receiver{address: c.ListenAddrs()[0], stop: c.Close, count: func() (int64, error) {
		partition := c.PartitionInfo(topic, 0)
		if partition == nil {
			return 0, errors.New("the topic no longer exists")
		}
		return partition.HighWatermark, nil
	}}, nil
}

// receiveNATS runs a server with its files in dir. The senders create the stream.
func receiveNATS(dir string) (*receiver, error) {
	s, stop, err := natsserver.Start(dir, nil)
	if err != nil {
		return nil, err
	}
	return &receiver{address: s.ClientURL(), stop: stop, count: func() (int64, error) {
		info, err := s.Jsz(nil)
		if err != nil {
			return 0, err
		}
		return int64(info.Messages), nil
	}}, nil
}

func receiveHTTP(string) (*receiver, error) { return receiveDocuments(eventStart) }

// receiveDocuments runs a server that counts the documents in requests by their beginning.
func receiveDocuments(start string) (*receiver, error) {
	var received atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := countDocuments(r.Body, start)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		received.Add(n)
		w.WriteHeader(http.StatusNoContent)
	}))
	return &receiver{address: s.URL, count: func() (int64, error) { return received.Load(), nil }, stop: s.Close}, nil
}

func receiveFile(dir string) (*receiver, error) {
	path := filepath.Join(dir, "events.jsonl")
	return &receiver{address: path, stop: func() {}, count: func() (int64, error) {
		file, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		defer file.Close()
		return countDocuments(file, eventStart)
	}}, nil
}

// eventStart is the beginning of every event of the bridge in structured form.
const eventStart = `{"specversion":`

// countDocuments reads a body and returns the number of documents in it, all of which have
// the same beginning.
func countDocuments(body io.Reader, start string) (n int64, err error) {
	block := make([]byte, 64<<10)
	kept := 0 // from the previous block: a beginning may span two
	for {
		read, err := body.Read(block[kept:])
		part := block[:kept+read]
		n += int64(bytes.Count(part, []byte(start)))
		kept = copy(block, part[max(0, len(part)-len(start)+1):])
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
