package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"ndrbridge/transform"
)

// keepAliveEvery is how often a stream of events says that it lives, so that
// nothing in between takes it for dead.
const keepAliveEvery = 15 * time.Second

// tail returns an operation that serves so many streams of events at once.
func tail() func(Control, http.ResponseWriter, *http.Request) {
	slots := make(chan struct{}, maxTails)
	return func(c Control, w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			serveTail(c, w, r)
		default:
			writeBusy(w, "too many streams of events are open: close another one")
		}
	}
}

// maxKept is how large a buffer for messages may be that is kept for the next one.
const maxKept = 64 << 10

func serveTail(c Control, w http.ResponseWriter, r *http.Request) {
	from, problem := readFrom(r.URL.Query())
	if problem != "" {
		writeProblem(w, http.StatusBadRequest, problem)
		return
	}
	visitOf(r).stream = true
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in front hands on what comes at once
	s := &stream{w: w, controller: http.NewResponseController(w)}
	if s.write([]byte(keepAlive)) != nil {
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	var beating sync.WaitGroup
	beating.Go(func() { s.heartbeat(ctx) })
	var b []byte
	err := c.Tail(ctx, from, func(e transform.Event) error {
		b = eventMessage(e).appendTo(b[:0])
		err := s.write(b)
		if cap(b) > maxKept {
			b = nil
		}
		return err
	})
	stop()
	beating.Wait()
	if err == nil || r.Context().Err() != nil {
		return
	}
	detail, _ := json.Marshal(newProblem(statusOf(err, http.StatusInternalServerError), err.Error()))
	_ = s.write(message{event: problemEvent, data: detail}.appendTo(nil)) // a client that went away misses it
}

// readFrom returns where a Tail is to begin, or what is wrong with what is asked for.
func readFrom(query url.Values) (from From, problem string) {
	var err error
	if text := query.Get("since"); text != "" {
		if from.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return from, "since is no time: " + timeAdvice
		}
	}
	if text := query.Get("last"); text != "" {
		if from.Last, err = strconv.ParseUint(text, 10, 64); err != nil {
			return from, "last must be a number of events"
		}
	}
	return from, ""
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

// heartbeat says that the stream lives, until ctx ends or the client is gone.
func (s *stream) heartbeat(ctx context.Context) {
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
