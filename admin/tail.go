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

// keepAliveEvery is the interval of keep-alive comments in a stream of events, so that
// no intermediary closes it as idle.
const keepAliveEvery = 15 * time.Second

// tail returns an operation that serves at most maxTails streams of events at once.
func tail() func(Control, http.ResponseWriter, *http.Request) {
	slots := make(chan struct{}, maxTails)
	return func(c Control, w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			serveTail(c, w, r)
		default:
			writeBusy(w, "too many streams of events are open: close one of them")
		}
	}
}

// maxBuffer is the maximum size of a message buffer that is reused, in bytes.
const maxBuffer = 64 << 10

func serveTail(c Control, w http.ResponseWriter, r *http.Request) {
	from, problem := readFrom(r.URL.Query())
	if problem != "" {
		writeProblem(w, http.StatusBadRequest, problem)
		return
	}
	admissionOf(r).stream = true
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a reverse proxy must not buffer the stream
	s := &stream{w: w, controller: http.NewResponseController(w)}
	if s.write([]byte(keepAlive)) != nil {
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	var heartbeat sync.WaitGroup
	heartbeat.Go(func() { s.heartbeat(ctx) })
	var b []byte
	err := c.Tail(ctx, from, func(e transform.Event) error {
		b = eventMessage(e).appendTo(b[:0])
		err := s.write(b)
		if cap(b) > maxBuffer {
			b = nil
		}
		return err
	})
	stop()
	heartbeat.Wait()
	if err == nil || r.Context().Err() != nil {
		return
	}
	detail, _ := json.Marshal(newProblem(statusOf(err, http.StatusInternalServerError), err.Error()))
	_ = s.write(message{event: problemEvent, data: detail}.appendTo(nil)) // fails only if the client is gone
}

// readFrom returns where the requested Tail begins. If the query is invalid, problem
// is the reason.
func readFrom(query url.Values) (from From, problem string) {
	var err error
	if text := query.Get("since"); text != "" {
		if from.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return from, "since is not a time: " + timeAdvice
		}
	}
	if text := query.Get("last"); text != "" {
		if from.Last, err = strconv.ParseUint(text, 10, 64); err != nil {
			return from, "last must be a number of events"
		}
	}
	return from, ""
}

// stream writes messages to one client and flushes each. Its methods are safe for
// concurrent use.
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

// heartbeat writes a keep-alive comment at each interval, until ctx is done or the
// client is gone.
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
