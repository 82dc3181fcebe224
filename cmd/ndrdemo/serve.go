package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// serve serves handler on a free loopback port. stop closes the server and waits for it.
func serve(handler http.Handler, log *slog.Logger) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelInfo),
	}
	var serving sync.WaitGroup
	// Serve returns only after Close.
	serving.Go(func() { _ = server.Serve(listener) })
	return "http://" + listener.Addr().String(), func() {
		_ = server.Close()
		serving.Wait()
	}, nil
}
