package replicatedtest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"ndrbridge/checkpoint/replicated"
)

// snapshots are those of one generation. Their mutex is that of Servers.
type snapshots struct {
	pointer  replicated.Pointer
	revision uint64
	objects  map[string][]chunk
}

type chunk struct {
	index int
	data  []byte
}

// Snapshots returns a generation's snapshots as a member reaches them. Of the faults they have
// LoseAnswers, FailReads and Delay.
func (s *Servers) Snapshots(member string, generation uint64) replicated.Snapshots {
	return &snapshotClient{servers: s, member: member, generation: generation}
}

// Damage changes a byte of an object.
func (s *Servers) Damage(generation uint64, object string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.snapshotsOf(generation).objects[object][0]
	c.data[len(c.data)/2] ^= 1
}

// snapshotsOf returns those of a generation. The mutex is held.
func (s *Servers) snapshotsOf(generation uint64) *snapshots {
	if s.snapshots[generation] == nil {
		s.snapshots[generation] = &snapshots{objects: map[string][]chunk{}}
	}
	return s.snapshots[generation]
}

type snapshotClient struct {
	servers    *Servers
	member     string
	generation uint64
}

var errLost = errors.New("no answer")

// do calls f with the generation's snapshots, unless the servers cannot be reached. changes says
// whether f changes something: then the answer may be lost.
func (c *snapshotClient) do(ctx context.Context, changes bool, f func(*snapshots) error) error {
	s := c.servers
	s.mu.Lock()
	delay := s.underWay(2 * s.faults.Delay)
	s.mu.Unlock()
	if err := sleep(ctx, delay); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut[c.member] || !changes && s.happens(s.faults.FailReads) {
		return errLost
	}
	err := f(s.snapshotsOf(c.generation))
	if changes && s.happens(s.faults.LoseAnswers) {
		return errLost
	}
	return err
}

func (c *snapshotClient) Pointer(ctx context.Context) (p replicated.Pointer, revision uint64, err error) {
	err = c.do(ctx, false, func(s *snapshots) error {
		p, revision = s.pointer, s.revision
		return nil
	})
	return p, revision, err
}

func (c *snapshotClient) SetPointer(ctx context.Context, p replicated.Pointer, revision uint64) error {
	return c.do(ctx, true, func(s *snapshots) error {
		if s.revision != revision {
			return replicated.ErrPointerMoved
		}
		s.pointer, s.revision = p, revision+1
		return nil
	})
}

func (c *snapshotClient) MaxData() int {
	return c.servers.Stream(c.member, c.generation).MaxData()
}

func (c *snapshotClient) Write(ctx context.Context, object string, index int, data []byte) error {
	return c.do(ctx, true, func(s *snapshots) error {
		s.objects[object] = append(s.objects[object], chunk{index, bytes.Clone(data)})
		return nil
	})
}

func (c *snapshotClient) Read(ctx context.Context, object string, yield func(int, []byte) error) error {
	var chunks []chunk
	err := c.do(ctx, false, func(s *snapshots) error {
		chunks = slices.Clone(s.objects[object])
		if len(chunks) == 0 {
			return replicated.ErrNoMessage
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, chunk := range chunks {
		if err := yield(chunk.index, bytes.Clone(chunk.data)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (c *snapshotClient) Objects(ctx context.Context) (objects []string, err error) {
	err = c.do(ctx, false, func(s *snapshots) error {
		objects = slices.Sorted(maps.Keys(s.objects))
		return nil
	})
	return objects, err
}

func (c *snapshotClient) Remove(ctx context.Context, object string) error {
	return c.do(ctx, true, func(s *snapshots) error {
		delete(s.objects, object)
		return nil
	})
}
