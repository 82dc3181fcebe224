package main

import (
	"context"
	"errors"
	"os"
	"slices"

	"ndrbridge/checkpoint/replicated"
	whole "ndrbridge/internal/bridge"
	"ndrbridge/internal/cluster"
)

// runMember runs the real bridge as a member of a cluster, with the fault.
func (b *bridge) runMember(ctx context.Context) error {
	member, err := whole.New(ctx, b.config, whole.Options{
		Version: "faulty", Log: whole.NewLog(os.Stderr, b.config.Log), Stdout: os.Stdout, Cluster: b.spoil,
	})
	if err != nil {
		return err
	}
	return member.Run(ctx)
}

// spoil takes the guard or the fence from a member.
func (b *bridge) spoil(o *cluster.Options) {
	switch b.fault {
	case "no-guard":
		own := o.Own
		o.Own = func(ctx context.Context, owned cluster.Ownership) error {
			owned.Lease = nil
			return own(ctx, owned)
		}
	case "no-fence":
		storage := o.Storage
		o.Storage = func(ctx context.Context, generation uint64, create bool) (cluster.Storage, error) {
			s, err := storage(ctx, generation, create)
			s.Stream = unfenced{s.Stream}
			return s, err
		}
	}
}

// unfenced is a log to which an owner appends also when another member has taken it.
type unfenced struct{ replicated.Stream }

// Publish implements replicated.Stream. It publishes m behind whatever the stream has.
func (u unfenced) Publish(after uint64, m replicated.Message, answer func(seq uint64, err error)) error {
	if m.Kind == replicated.KindTake {
		return u.Stream.Publish(after, m, answer)
	}
	m.Data = slices.Clone(m.Data)
	return u.behind(after, m, func(err error) { answer(after+1, err) })
}

func (u unfenced) behind(last uint64, m replicated.Message, answer func(err error)) error {
	return u.Stream.Publish(last, m, func(_ uint64, err error) {
		if wrong, ok := errors.AsType[*replicated.WrongLastError](err); ok {
			go func() {
				if err := u.behind(wrong.Last, m, answer); err != nil {
					answer(err)
				}
			}()
			return
		}
		answer(err)
	})
}
