package intake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/kafkawire"
)

const (
	// maxFetchers limits the responses in memory.
	maxFetchers = 4
	// fetchBytes is the maximum size of a fetch.
	fetchBytes = 1 << 20
	// maxWait is how long a broker may wait for records before it answers.
	maxWait = time.Second
)

// consume takes records until ctx is done or the membership ends. It returns
// errRebalance if m must join the group again.
func (m *member) consume(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var loops sync.WaitGroup
	loops.Go(func() { end(m.heartbeats(ctx)) })
	if m.leads {
		loops.Go(func() { end(m.watch(ctx)) })
	}
	fetchers := make([]*fetcher, min(maxFetchers, len(m.positions)))
	for i := range fetchers {
		fetchers[i] = &fetcher{m: m, links: map[string]*kafkawire.Link{}}
	}
	for i, p := range slices.Sorted(maps.Keys(m.positions)) {
		f := fetchers[i%len(fetchers)]
		f.partitions = append(f.partitions, &source{partition: p, position: m.positions[p]})
	}
	for _, f := range fetchers {
		loops.Go(func() { end(f.run(ctx)) })
	}
	loops.Wait()
	return context.Cause(ctx)
}

// fetcher takes the records of some partitions, one after the other.
type fetcher struct {
	m          *member
	partitions []*source
	links      map[string]*kafkawire.Link // by address
}

// source is a fetched partition.
type source struct {
	partition int32
	position  int64 // of the next record; negative: the first one available
	wait      time.Duration
	retry     time.Time // earliest time of the next fetch
	failed    time.Time // leaders known at this time may be outdated
}

// run fetches until ctx is done or an offset cannot be committed. The record of that
// offset is delivered again and recognized by its key.
func (f *fetcher) run(ctx context.Context) error {
	defer func() {
		for _, l := range f.links {
			l.Close()
		}
	}()
	for ctx.Err() == nil {
		next := time.Now().Add(f.m.k.o.RetryMax)
		for _, s := range f.partitions {
			if time.Now().Before(s.retry) {
				if s.retry.Before(next) {
					next = s.retry
				}
				continue
			}
			next = time.Time{}
			what := fmt.Sprintf("partition %d", s.partition)
			err := f.fetch(ctx, s)
			if lost, ok := errors.AsType[*commitError](err); ok {
				return lost
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				s.wait = 0
				f.m.failures.end(what)
				continue
			}
			s.wait = min(max(2*s.wait, f.m.k.o.RetryInitial), f.m.k.o.RetryMax)
			s.failed, s.retry = time.Now(), time.Now().Add(s.wait)
			f.m.failures.begin(what, fmt.Errorf("%s: %w", what, err))
		}
		if !next.IsZero() {
			sleep(ctx, time.Until(next))
		}
	}
	return ctx.Err()
}

// fetch requests records from a partition's leader once and takes them.
func (f *fetcher) fetch(ctx context.Context, s *source) error {
	if !s.failed.IsZero() {
		if _, err := f.m.layout(ctx, s.failed); err != nil {
			return err
		}
		if err := f.reread(ctx, s); err != nil {
			return err
		}
		s.failed = time.Time{}
	}
	address := f.m.leader(s.partition)
	if address == "" {
		return errors.New("it has no leader now")
	}
	l := f.links[address]
	if l == nil {
		f.prune()
		l = kafkawire.NewLink(f.m.dialer, address)
		f.links[address] = l
	}
	if s.position < 0 {
		first, err := f.edge(ctx, l, s.partition, earliest)
		if err != nil {
			return err
		}
		s.position = first
	}
	wait := maxWait / time.Duration(len(f.partitions))
	// A broker without records answers after wait; ask no sooner if it answers earlier.
	s.retry = time.Now().Add(wait)
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = int32(wait.Milliseconds()), 1, fetchBytes
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = s.partition, s.position, fetchBytes
	request.Topics = []kmsg.FetchRequestTopic{{Topic: f.m.k.o.Topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	answer, err := l.Exchange(ctx, request)
	if err != nil {
		return err
	}
	response := answer.(*kmsg.FetchResponse)
	if err := brokerError(response.ErrorCode, "fetch"); err != nil {
		return err
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			switch {
			case t.Topic != f.m.k.o.Topic || p.Partition != s.partition:
			case p.ErrorCode == kerr.OffsetOutOfRange.Code:
				return f.outOfRange(ctx, l, s)
			case p.ErrorCode != 0:
				return brokerError(p.ErrorCode, "fetch")
			default:
				return f.take(ctx, s, p.RecordBatches)
			}
		}
	}
	return errors.New("the broker's answer does not contain it")
}

// reread sets the position to the committed offset. They are equal unless the topic was
// deleted, and the group's offsets with it: a recreated topic is read from its first
// record, not from the position in the deleted one.
func (f *fetcher) reread(ctx context.Context, s *source) error {
	f.m.one.Lock()
	defer f.m.one.Unlock()
	positions, err := f.m.committed(ctx, []int32{s.partition})
	if err == nil {
		s.position = positions[s.partition]
	}
	return err
}

// prune closes connections to brokers that no longer lead any of the partitions.
func (f *fetcher) prune() {
	for address, l := range f.links {
		if !slices.ContainsFunc(f.partitions, func(s *source) bool { return f.m.leader(s.partition) == address }) {
			l.Close()
			delete(f.links, address)
		}
	}
}

// take takes the records of a fetch, starting at the position.
func (f *fetcher) take(ctx context.Context, s *source, set []byte) error {
	began := s.position
	for rest := set; ; {
		b, behind, ok, err := kafkawire.NextBatch(rest)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		rest = behind
		if b.Last < s.position {
			continue
		}
		for r, err := range b.Records() {
			switch {
			case errors.Is(err, kafkawire.ErrRecordsTooLarge):
				err = f.one(ctx, s, b.Last, func() (bool, error) { return f.m.k.refuseBatch(ctx, s.partition, b) })
			case err == nil && r.Offset >= s.position:
				err = f.one(ctx, s, r.Offset, func() (bool, error) { return f.m.k.receive(ctx, s.partition, r) })
			}
			if err != nil {
				return err
			}
		}
		s.position = max(s.position, b.Last+1) // skips compacted records and control batches
	}
	if s.position > began {
		s.retry = time.Time{}
	} else if len(set) > 0 {
		return fmt.Errorf("the broker's answer of %d bytes holds no complete record batch from offset %d", len(set), began)
	}
	return nil
}

// commitError reports that the offset of a taken record could not be committed.
type commitError struct{ error }

func (e *commitError) Unwrap() error { return e.error }

// one takes a record, or a whole batch, and commits the offset after it. Only one is
// taken at a time across all partitions.
func (f *fetcher) one(ctx context.Context, s *source, offset int64, take func() (refused bool, err error)) error {
	f.m.one.Lock()
	defer f.m.one.Unlock()
	refused, err := take()
	if err != nil {
		return err
	}
	if err := f.m.commit(ctx, s.partition, offset+1); err != nil {
		return &commitError{err}
	}
	s.position = offset + 1
	f.m.k.acknowledged(refused)
	f.m.failures.end("") // earlier attempts may have failed
	return nil
}

// The timestamps of the protocol that stand for the ends of a partition.
const (
	earliest = -2
	latest   = -1
)

// edge returns the offset of a partition's first record, or of the next one to be
// produced.
func (f *fetcher) edge(ctx context.Context, l *kafkawire.Link, partition int32, which int64) (int64, error) {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, which
	request := kmsg.NewPtrListOffsetsRequest()
	request.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: f.m.k.o.Topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	answer, err := l.Exchange(ctx, request)
	if err != nil {
		return 0, err
	}
	for _, t := range answer.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if t.Topic != f.m.k.o.Topic || p.Partition != partition {
				continue
			}
			if err := brokerError(p.ErrorCode, "ask for offsets"); err != nil {
				return 0, err
			}
			if p.Offset < 0 {
				return 0, fmt.Errorf("ask for offsets: the broker answers %d", p.Offset)
			}
			return p.Offset, nil
		}
	}
	return 0, errors.New("ask for offsets: the broker's answer does not contain the partition")
}

// outOfRange moves the position to the first record if earlier ones were deleted. It is
// an error if the position is after the end: going back would repeat commands that were
// carried out long ago.
func (f *fetcher) outOfRange(ctx context.Context, l *kafkawire.Link, s *source) error {
	first, err := f.edge(ctx, l, s.partition, earliest)
	if err != nil {
		return err
	}
	if first > s.position {
		f.m.k.o.Log.Warn("records of ticket commands were deleted from the topic before they were received",
			"topic", f.m.k.o.Topic, "partition", s.partition, "from", s.position, "to", first-1)
		s.position = first
		return nil
	}
	end, err := f.edge(ctx, l, s.partition, latest)
	if err != nil || s.position <= end {
		return err
	}
	return fmt.Errorf("the group's offset %d is after the end of the partition, %d: records were lost; reset the group's offset", s.position, end)
}
