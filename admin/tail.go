package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"ndrbridge/transform"
)

// keepAliveEvery is how often a stream of events says that it lives, so that
// nothing in between takes it for dead.
const keepAliveEvery = 15 * time.Second

func tail(c Control, w http.ResponseWriter, r *http.Request) {
	var since time.Time
	if text := r.URL.Query().Get("since"); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			writeProblem(w, http.StatusBadRequest, "since is no time: "+timeAdvice)
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in front hands on what comes at once
	s := &stream{w: w, controller: http.NewResponseController(w)}
	if s.write([]byte(keepAlive)) != nil {
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	var beating sync.WaitGroup
	beating.Go(func() { s.beat(ctx) })
	var b []byte
	err := c.Tail(ctx, since, func(e transform.Event) error {
		b = eventMessage(e).appendTo(b[:0])
		return s.write(b)
	})
	stop()
	beating.Wait()
	if err == nil || r.Context().Err() != nil {
		return
	}
	detail, _ := json.Marshal(newProblem(statusOf(err, http.StatusInternalServerError), err.Error()))
	_ = s.write(message{event: problemEvent, data: detail}.appendTo(nil)) // a client that went away misses it
}

// stream writes to one client whole pieces, each of them at once. Its methods
// are safe for concurrent use.
type stream struct {
	mu         sync.Mutex
	w          http.ResponseWriter
	controller *http.ResponseController
}

func (s *stream) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.controller.Flush()
}

// beat says that the stream lives, until ctx ends or the client is gone.
func (s *stream) beat(ctx context.Context) {
	ticker := time.NewTicker(keepAliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if s.write([]byte(keepAlive)) != nil {
				return
			}
		}
	}
}
