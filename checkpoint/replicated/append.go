package replicated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
)

// appender stores the parts of one record as the messages base+1, base+2 … Every copy of
// part i carries the expectation base+i: at most one of them can be stored, and none once
// anything else is there. So a part may be sent until an answer says that it is stored, or
// until the message in its position shows that it never can be.
type appender struct {
	l     *Log
	base  uint64 // sequence number of the message before the first part
	parts []Message

	stored   []bool
	missing  int // parts that are not known to be stored
	first    int // the first of them
	answers  chan answer
	round    int    // grows with each time that the missing parts are sent
	awaited  []bool // parts of this round that are not answered
	inFlight int    // number of them
	why      error  // the last reason why a part was not stored

	short, gone, unlinked suspicion
}

// answer is one to a copy of a part.
type answer struct {
	base  uint64
	round int
	part  int
	seq   uint64
	err   error
}

func newAppender(l *Log, kind string, data []byte) *appender {
	a := &appender{l: l, base: l.last.Load(), answers: make(chan answer, 8*maxInFlight)}
	size := min(maxPart, l.stream.MaxData())
	if kind == KindTake {
		size = max(size, len(data)) // a part of one would fence the owner, and replace it with nobody
	}
	n := max(1, (len(data)+size-1)/size)
	id := messageID{owner: l.o.Owner, epoch: l.epoch, number: l.number, parts: n}
	for i := range n {
		id.part = i + 1
		part := data[i*size : min(len(data), (i+1)*size)]
		a.parts = append(a.parts, Message{ID: id.String(), Kind: kind, Term: l.o.Term, Data: part})
	}
	a.restart()
	return a
}

// restart forgets all answers.
func (a *appender) restart() {
	a.stored, a.missing, a.first = make([]bool, len(a.parts)), len(a.parts), 0
	a.short, a.gone = suspicion{}, suspicion{}
}

// run returns nil as soon as all parts are stored, and count.
func (a *appender) run(ctx context.Context) error {
	begun := a.l.o.Clock.Now()
	if err := a.store(ctx); err != nil {
		return err
	}
	if a.round == 1 && begun-a.l.storedAt < a.l.o.Term/2 {
		return nil // nobody can have taken the log meanwhile, even if it lost its end
	}
	for {
		counts, err := a.follows(ctx)
		if err != nil || counts {
			return err
		}
		pause(ctx, ackWait/2)
		if ctx.Err() != nil {
			return a.unknown(ctx)
		}
	}
}

// follows reports whether the message before the record is the one that it was before. If the
// log lost its end and others wrote to it until it was as long again, expectations hold by
// chance, and the record does not count. false: it is not known.
func (a *appender) follows(ctx context.Context) (bool, error) {
	if a.l.last.Load() == 0 || a.l.trail.id == "" {
		return true, nil
	}
	m, err := a.l.get(ctx, a.l.last.Load())
	if err != nil {
		a.why = err
		if a.unlinked.lasts(errors.Is(err, ErrNoMessage), a.l.o.Clock.Now()) {
			return false, fmt.Errorf("append to the log: message %d, before the record, is gone; it is not known whether the record counts", a.l.last.Load())
		}
		return false, nil
	}
	a.unlinked = suspicion{}
	if m.ID != a.l.trail.id {
		return false, fmt.Errorf("append to the log: %w: message %d is %.100q, not %q any more", checkpoint.ErrNotOwner, a.l.last.Load(), m.ID, a.l.trail.id)
	}
	return true, nil
}

// store returns nil as soon as all parts are stored.
func (a *appender) store(ctx context.Context) error {
	pause := time.Duration(0)
	for {
		refused, err := a.send(ctx)
		if a.missing == 0 {
			return nil
		}
		switch {
		case err != nil:
		case refused:
			err = a.resolve(ctx)
		default: // no answer, perhaps because the stream is gone
			_, err = a.end(ctx)
		}
		switch {
		case a.missing == 0:
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return a.unknown(ctx)
		}
		// What is refused at once (no leader, a full disk) is not sent without a pause.
		pause = min(max(2*pause, 20*time.Millisecond), ackWait/2)
		if err := a.rest(ctx, pause); err != nil {
			return err
		}
		if a.missing > 0 && a.l.o.Metrics.Resent != nil {
			a.l.o.Metrics.Resent(a.missing, a.why)
		}
	}
}

// send sends the missing parts once, and returns when each is answered, no answer comes for
// ackWait, or all are stored. refused reports whether a message stands in the way of the
// first missing part.
func (a *appender) send(ctx context.Context) (refused bool, err error) {
	a.round++
	a.awaited, a.inFlight = make([]bool, len(a.parts)), 0
	next := a.first
	timer := time.NewTimer(ackWait)
	defer timer.Stop()
	for a.missing > 0 {
		for next < len(a.parts) && a.inFlight < maxInFlight {
			if !a.stored[next] && !a.publish(next) {
				next = len(a.parts) // what follows would be refused
				break
			}
			next++
		}
		if a.inFlight == 0 {
			return refused, nil
		}
		select {
		case <-ctx.Done():
			return refused, a.unknown(ctx)
		case <-timer.C:
			if a.why == nil {
				a.why = errors.New("no answer")
			}
			return refused, nil
		case answer := <-a.answers:
			wrong, err := a.note(answer)
			if err != nil {
				return refused, err
			}
			refused = refused || wrong
			timer.Reset(ackWait)
		}
	}
	return false, nil
}

// publish sends a part and reports whether it was sent.
func (a *appender) publish(i int) bool {
	base, round, answers := a.base, a.round, a.answers
	err := a.l.stream.Publish(base+uint64(i), a.parts[i], func(seq uint64, err error) {
		select {
		case answers <- answer{base, round, i, seq, err}:
		default: // as if it was lost
		}
	})
	if err != nil {
		a.why = err
		return false
	}
	a.awaited[i] = true
	a.inFlight++
	return true
}

// rest notes answers for a while.
func (a *appender) rest(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for a.missing > 0 {
		select {
		case <-ctx.Done():
			return a.unknown(ctx)
		case <-timer.C:
			return nil
		case answer := <-a.answers:
			if _, err := a.note(answer); err != nil {
				return err
			}
		}
	}
	return nil
}

// note notes an answer. wrong reports whether the expectation of the part did not hold.
func (a *appender) note(answer answer) (wrong bool, err error) {
	if answer.base != a.base {
		return false, nil // to a copy that can no longer be stored
	}
	if answer.round == a.round && a.awaited[answer.part] {
		a.awaited[answer.part] = false
		a.inFlight--
	}
	var wrongLast *WrongLastError
	switch want := a.base + uint64(answer.part) + 1; {
	case errors.As(answer.err, &wrongLast):
		a.why = answer.err
		return true, nil
	case answer.err != nil:
		a.why = answer.err
	case answer.seq != want:
		return false, fmt.Errorf("append to the log: message %d was acknowledged as %d: the stream does not check expectations: use NATS 2.10.23 or newer; it is not known whether the record is stored", want, answer.seq)
	default:
		a.mark(answer.part)
	}
	return false, nil
}

// mark notes that a part is stored.
func (a *appender) mark(i int) {
	if !a.stored[i] {
		a.stored[i] = true
		a.missing--
	}
	for a.first < len(a.parts) && a.stored[a.first] {
		a.first++
	}
}

// resolve looks at the messages in the positions of the missing parts.
func (a *appender) resolve(ctx context.Context) error {
	for a.missing > 0 {
		at := a.base + uint64(a.first) + 1
		m, err := a.l.get(ctx, at)
		switch {
		case errors.Is(err, ErrNoMessage):
			return a.absent(ctx, at)
		case err != nil:
			a.why = err
			return nil
		case m.ID == a.parts[a.first].ID:
			a.mark(a.first) // an earlier copy arrived
			continue
		}
		if a.fenced(m) {
			return fmt.Errorf("append to the log: %w: message %d is %.100q", checkpoint.ErrNotOwner, at, m.ID)
		}
		// A late part of an earlier owner's chain, or nobody's: readers ignore it. The missing
		// part can no longer be stored here, so the chain begins again behind it.
		if follows, err := a.follows(ctx); err != nil || !follows {
			return err
		}
		a.base = at
		a.restart()
	}
	return nil
}

// fenced reports whether a message in the position of a part shows that the part's owner is
// not, or no longer, the log's. An owner's first message is its take, so a message of another
// owner in this position is either late, and ignored by readers, or a take.
func (a *appender) fenced(m Message) bool { return m.Kind == KindTake || a.parts[0].Kind == KindTake }

// absent finds out why a part was refused although there is nothing in its position: a part
// before it is missing, the log went back, or the message was lost.
func (a *appender) absent(ctx context.Context, at uint64) error {
	last, err := a.end(ctx)
	if err == nil && a.gone.lasts(last >= at, a.l.o.Clock.Now()) {
		return fmt.Errorf("append to the log: message %d of %d is gone; it is not known whether the record is stored", at, last)
	}
	return err
}

// end returns the number of the last message; 0 if the servers do not answer. It returns an error if
// the log ends before what it has acknowledged.
func (a *appender) end(ctx context.Context) (last uint64, err error) {
	bounded, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	last, err = a.l.stream.Last(bounded)
	if err != nil {
		a.why = cmp.Or(a.why, err)
		return 0, nil
	}
	if a.short.lasts(last < a.l.last.Load(), a.l.o.Clock.Now()) {
		return last, fmt.Errorf("append to the log: %w: its last message is %d, after %d was acknowledged", ErrLogLost, last, a.l.last.Load())
	}
	return last, nil
}

// unknown is the error for an end in which the record may be stored or not.
func (a *appender) unknown(ctx context.Context) error {
	err := fmt.Errorf("append to the log: it is not known whether the record is stored: %w", context.Cause(ctx))
	if a.why != nil {
		err = fmt.Errorf("%w (%w)", err, a.why)
	}
	return err
}

// suspicion is an observation about the end of a log that a leader of the past makes too:
// it counts only if it lasts.
type suspicion struct {
	times int
	since time.Duration
}

// suspicionTimes is how often an observation has to be made.
const suspicionTimes = 3

// lostAfter is how long it has to be made: longer than a server that has lost its majority
// goes on as a leader.
const lostAfter = 15 * time.Second

// lasts notes whether the observation was made, and reports whether it was made each time
// for long enough.
func (s *suspicion) lasts(observed bool, now time.Duration) bool {
	if !observed {
		*s = suspicion{}
		return false
	}
	if s.times == 0 {
		s.since = now
	}
	s.times++
	return s.times >= suspicionTimes && now-s.since >= lostAfter
}
