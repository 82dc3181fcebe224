// Package natsserver runs NATS servers with JetStream in this process, for tests, the demo and
// the benchmark.
package natsserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Start runs a server on a free loopback port with its files in folder, unless change, which
// may be nil, sets others. stop ends the server and waits for it.
func Start(folder string, change func(*server.Options)) (s *server.Server, stop func(), err error) {
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: folder, NoLog: true, NoSigs: true}
	if change != nil {
		change(o)
	}
	if s, err = server.NewServer(o); err != nil {
		return nil, nil, fmt.Errorf("create the NATS server: %w", err)
	}
	s.Start()
	stop = func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	if !s.ReadyForConnections(10 * time.Second) {
		stop()
		return nil, nil, errors.New("the NATS server does not start")
	}
	return s, stop, nil
}
