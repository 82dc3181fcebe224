package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	standin "ndrbridge/test/appliance"
)

// serve serves an appliance until ctx is cancelled.
func serve(ctx context.Context, s settings, stdout, stderr io.Writer) error {
	certificate, err := s.tls.certificate()
	if err != nil {
		return err
	}
	s.options.Certificate = certificate
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.listen, err)
	}
	s.options.NoHistory = true // the program has no use for it
	a := standin.New(s.options)
	a.SetSkew(s.skew)
	a.SetHazards(s.hazards)
	a.AddBacklog(s.backlog, s.backlogOver)
	a.AddAudit(s.entries)
	if err := a.AddRecordBacklog(s.records, s.backlogOver); err != nil {
		return errors.Join(err, listener.Close())
	}

	const headerTimeout = 10 * time.Second
	server := &http.Server{Handler: a, ReadHeaderTimeout: headerTimeout}
	scheme := "http"
	if s.tls.enabled() {
		scheme = "https"
		if server.TLSConfig, err = s.tls.config(a); err != nil {
			return errors.Join(err, listener.Close())
		}
	}

	// However the server stops, the changes to its detections stop too.
	alive, end := context.WithCancel(ctx)
	var living sync.WaitGroup
	living.Go(func() { a.Live(alive, s.rates) })
	defer living.Wait()
	defer end()

	failed := make(chan error, 1)
	go func() {
		if s.tls.enabled() {
			failed <- server.ServeTLS(listener, "", "")
			return
		}
		failed <- server.Serve(listener)
	}()
	fmt.Fprintf(stdout, "listening on %s://%s\n", scheme, listener.Addr())

	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	const patience = 5 * time.Second
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close() // abort the remaining requests
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	var requests int
	for _, n := range a.Requests() {
		requests += n
	}
	fmt.Fprintf(stderr, "stopped after %d requests, with %d detections\n", requests, a.Len())
	return nil
}
