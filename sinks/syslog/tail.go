package syslog

import (
	"slices"
	"time"
)

// The bounds of a tail.
const (
	// tailAge is how long the end of a connection makes messages be sent again that were
	// delivered on it: a receiver reads and stores a message much sooner.
	tailAge = 30 * time.Second
	// tailBytes bounds the tail. A receiver's system takes no more than a few MiB of a
	// connection that the receiver does not read.
	tailBytes = 8 << 20
	// maxRepetitions is how many times a message is sent again at least. A message that makes
	// the receiver end the connection would be sent for ever otherwise.
	maxRepetitions = 10
	// chunkBytes is about the size of a chunk, and chunkAge the time in which small batches
	// are added to one: a chunk is given up as a whole, and acknowledged as a
	// whole when it is sent again.
	chunkBytes = 256 << 10
	chunkAge   = time.Second
)

// tail is the last messages that were delivered on a connection, in their order. If the
// connection ends unexpectedly, they are sent on the next one before anything else, so that
// the receiver stores a range twice, as it does after a crash of the bridge, and the order
// of the events holds.
//
// The zero tail is empty. Its owner calls its methods from one goroutine at a time.
type tail struct {
	chunks []chunk
	bytes  int
}

// chunk is consecutive messages of one batch, or of several small ones.
type chunk struct {
	frames      []byte
	messages    int
	begun       time.Time // when the first of its messages was sent
	sent        time.Time // when the last of its messages was sent
	repetitions int
}

// add appends a batch that was delivered, and removes what exceeds the bounds.
func (t *tail) add(b *batch, now time.Time) {
	t.bytes += len(b.framed)
	if c := t.last(); c != nil && c.repetitions == 0 && now.Sub(c.begun) < chunkAge && len(c.frames)+len(b.framed) <= chunkBytes {
		c.frames, c.messages, c.sent = append(c.frames, b.framed...), c.messages+len(b.ends), now
	} else {
		begin, messages := 0, 0
		for i, end := range b.ends {
			messages++
			if last := i == len(b.ends)-1; last || end-begin >= chunkBytes {
				t.chunks = append(t.chunks, chunk{frames: slices.Clone(b.framed[begin:end]), messages: messages, begun: now, sent: now})
				begin, messages = end, 0
			}
		}
	}
	t.expire(now)
	for t.bytes > tailBytes {
		t.remove(0)
	}
}

// last returns the newest chunk, or nil.
func (t *tail) last() *chunk {
	if len(t.chunks) == 0 {
		return nil
	}
	return &t.chunks[len(t.chunks)-1]
}

// expire removes messages older than tailAge.
func (t *tail) expire(now time.Time) {
	for len(t.chunks) > 0 && now.Sub(t.chunks[0].sent) > tailAge {
		t.remove(0)
	}
}

// repeat records that chunk i is sent again, and returns its frames.
func (t *tail) repeat(i int, now time.Time) (frames []byte) {
	c := &t.chunks[i]
	c.sent = now
	c.repetitions++
	return c.frames
}

// forgive undoes the count of one repetition.
func (t *tail) forgive() {
	for i := range t.chunks {
		t.chunks[i].repetitions = max(0, t.chunks[i].repetitions-1)
	}
}

// giveUp removes the oldest chunk if it was sent again maxRepetitions times, and returns the
// number of its messages. The others stay: the receiver may have ended every connection
// before it read them.
func (t *tail) giveUp() (messages int) {
	if len(t.chunks) == 0 || t.chunks[0].repetitions < maxRepetitions {
		return 0
	}
	messages = t.chunks[0].messages
	t.remove(0)
	return messages
}

// messages returns the number of messages.
func (t *tail) messages() (n int) {
	for _, c := range t.chunks {
		n += c.messages
	}
	return n
}

func (t *tail) remove(i int) {
	t.bytes -= len(t.chunks[i].frames)
	t.chunks = slices.Delete(t.chunks, i, i+1)
}
