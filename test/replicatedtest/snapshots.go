package replicatedtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"ndrbridge/checkpoint/replicated"
)

// snapshots are those of one generation. Their mutex is that of Servers.
type snapshots struct {
	pointer  replicated.Pointer
	revision uint64
	objects  map[string][]byte
}

// Snapshots returns a generation's snapshots as a member reaches them. Of the faults they have
// LoseAnswers, FailReads and Delay.
func (s *Servers) Snapshots(member string, generation uint64) replicated.Snapshots {
	return &snapshotClient{servers: s, member: member, generation: generation}
}

// Damage changes a byte of an object.
func (s *Servers) Damage(generation uint64, object string, at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := s.snapshotsOf(generation).objects[object]
	data[at%len(data)] ^= 1
}

// snapshotsOf returns those of a generation. The mutex is held.
func (s *Servers) snapshotsOf(generation uint64) *snapshots {
	if s.snapshots[generation] == nil {
		s.snapshots[generation] = &snapshots{objects: map[string][]byte{}}
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
			return replicated.ErrConflict
		}
		s.pointer, s.revision = p, revision+1
		return nil
	})
}

func (c *snapshotClient) Writer(ctx context.Context, object string) io.Writer {
	return &objectWriter{snapshotClient: c, ctx: ctx, object: object}
}

type objectWriter struct {
	*snapshotClient
	ctx    context.Context
	object string
	n      int // bytes that were stored
}

// Write implements io.Writer.
func (w *objectWriter) Write(b []byte) (n int, err error) {
	for chunk := range slices.Chunk(b, w.servers.Stream(w.member, w.generation).MaxData()) {
		err := w.do(w.ctx, true, func(s *snapshots) error {
			if len(s.objects[w.object]) != w.n {
				return errors.New("the object has another end")
			}
			s.objects[w.object] = append(s.objects[w.object], chunk...)
			w.n += len(chunk)
			return nil
		})
		if err != nil {
			return n, err
		}
		n += len(chunk)
	}
	return n, nil
}

func (c *snapshotClient) Read(ctx context.Context, object string, n int64, w io.Writer) error {
	var data []byte
	err := c.do(ctx, false, func(s *snapshots) error {
		data = bytes.Clone(s.objects[object])
		if int64(len(data)) != n {
			return fmt.Errorf("%d bytes of %d are there", len(data), n)
		}
		return nil
	})
	if err == nil {
		_, err = w.Write(data)
	}
	return err
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
