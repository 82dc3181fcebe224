package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"ndrbridge/transform"
)

// keepAliveEvery is the interval of keep-alive comments in a stream of events, so that
// no intermediary closes it as idle.
const keepAliveEvery = 15 * time.Second

// From selects the events of the journal with which a tail begins. The zero value selects
// none.
type From struct {
	// Begins with the events of the journal that were recorded at or after this time.
	Since time.Time `param:"since" invalid:"since is not a time: write a time such as 2026-01-31T08:00:00Z"`
	// Begins with this many events of the journal; ignored if there is since.
	Last uint64 `param:"last" invalid:"last must be a number of events"`
	// Live, if not nil, is called once, between the events that From selects and those that
	// are journalled after the call of Tail; some of the latter may come before it. If Live
	// returns an error, Tail returns it.
	Live func() error
}

// maxBuffer is the maximum size of a message buffer that is reused, in bytes.
const maxBuffer = 64 << 10

// tail returns a handler that serves a stream of events while it occupies one of streams. It
// returns an error only before it has sent anything.
func tail(streams *semaphore.Weighted) func(c *Client, w http.ResponseWriter, r *http.Request) (any, error) {
	return func(c *Client, w http.ResponseWriter, r *http.Request) (any, error) {
		if !streams.TryAcquire(1) {
			return nil, busy("too many streams of events are open: close one of them")
		}
		defer streams.Release(1)
		begin, err := readRequest[TailRequest](w, r)
		if err == nil {
			serveTail(c, w, r, begin)
		}
		return nil, err
	}
}

func serveTail(c *Client, w http.ResponseWriter, r *http.Request, begin TailRequest) {
	admissionOf(r).stream = true
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a reverse proxy must not buffer the stream
	s := &stream{w: w, controller: http.NewResponseController(w)}
	if s.write([]byte(keepAlive)) != nil {
		return // the client is gone
	}
	ctx, stop := context.WithCancel(r.Context())
	var heartbeat sync.WaitGroup
	heartbeat.Go(func() { s.heartbeat(ctx) })
	var b []byte
	from := begin.From
	if begin.AsksLive {
		from.Live = func() error { return s.write(message{event: liveEvent, data: []byte("{}")}.appendTo(nil)) }
	}
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
	detail, _ := json.Marshal(problemOf(err, http.StatusInternalServerError))
	_ = s.write(message{event: problemEvent, data: detail}.appendTo(nil)) // fails only if the client is gone
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

// Tail calls yield for the events of the journal that from selects, and then for each new
// event, in order. It returns nil when ctx is done, or yield's error. Through the API, it
// returns an error if the stream ends before ctx is done.
func (c *Client) Tail(ctx context.Context, from From, yield func(transform.Event) error) error {
	if c.local != nil {
		return API.TailEvents.Do(ctx, c, TailRequest{From: from, Yield: yield})
	}
	body, err := c.open(ctx, API.TailEvents.call(TailRequest{From: from, AsksLive: from.Live != nil}))
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer body.Close()
	for r := bufio.NewReaderSize(body, 64<<10); ; {
		m, err := readMessage(r)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("the bridge ended the stream of events: it is stopping, or something between it and here did")
		case err != nil:
			return fmt.Errorf("the stream of events broke off: %w", err)
		case m.event == problemEvent:
			var p problem
			if err := json.Unmarshal(m.data, &p); err != nil {
				return fmt.Errorf("read the bridge's answer: %w", err)
			}
			return &p
		case m.event == liveEvent:
			if from.Live != nil {
				if err := from.Live(); err != nil {
					return err
				}
			}
			continue
		}
		event, err := transform.Parse(m.data)
		if err != nil {
			return fmt.Errorf("read the bridge's answer: %w", err)
		}
		if err := yield(event); err != nil {
			return err
		}
	}
}

// The stream of events uses server-sent events (the HTML standard, section 9.2).

// keepAlive is a comment, which readers ignore.
const keepAlive = ":\n\n"

// problemEvent is the type of the message that contains, as a problem document, the
// reason why the stream ends. An event's type always contains a dot.
const problemEvent = "problem"

// liveEvent is the type of the message between the selected events of the journal and new
// ones. Its data is an empty object.
const liveEvent = "live"

// message is one message of a stream of events.
type message struct {
	id, event string
	data      []byte
}

func eventMessage(e transform.Event) message { return message{e.ID, e.Type, e.Structured()} }

// appendTo appends the message to b and returns the result. Its data, which is JSON,
// is put on one line.
func (m message) appendTo(b []byte) []byte {
	b = appendField(b, "id", m.id)
	b = appendField(b, "event", m.event)
	b = append(b, "data: "...)
	begin := len(b)
	b = append(b, m.data...)
	// In JSON, line breaks occur only between tokens, where a space is equivalent.
	for i, c := range b[begin:] {
		if c == '\n' || c == '\r' {
			b[begin+i] = ' '
		}
	}
	return append(b, "\n\n"...)
}

// appendField appends a field. It omits an empty value and one that does not fit on a
// line.
func appendField(b []byte, name, value string) []byte {
	if value == "" || strings.ContainsAny(value, "\r\n\x00") {
		return b
	}
	return append(append(append(append(b, name...), ": "...), value...), '\n')
}

// readMessage returns the next message that has data. It returns io.EOF if the stream
// ended between two messages, and io.ErrUnexpectedEOF if it ended within one.
func readMessage(r *bufio.Reader) (message, error) {
	var m message
	for begun := false; ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) && (begun || len(line) > 0) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return message{}, err
		}
		line = bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'})
		begun = len(line) > 0
		if !begun {
			if m.data != nil {
				return m, nil
			}
			m = message{}
			continue
		}
		// A comment is a field without a name.
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "id":
			m.id = string(value)
		case "event":
			m.event = string(value)
		case "data":
			if m.data != nil {
				value = append(append(m.data, '\n'), value...)
			}
			m.data = value
		}
	}
}
