package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"ndrbridge/transform"
)

// Skip implements Skips.
func (s *Store) Skip(ctx context.Context, skipped Skip) error {
	var err error
	if len(skipped.Event.Structured()) == 0 {
		err = errors.New("the event that tells it was not made by transform.New")
	}
	if err == nil {
		err = s.do(ctx, &skip{skipped})
	}
	if err != nil {
		return fmt.Errorf("skip %s up to %d: %w", skipped.Sink, skipped.Cursor, err)
	}
	return nil
}

// skip is the change that Skip makes.
type skip struct{ Skip }

func (s *skip) check(r *round) error {
	moved := settlement{Settlement{Sink: s.Sink, Expect: s.Expect, Cursor: s.Cursor}}
	if err := moved.check(r); err != nil {
		return err
	}
	if s.Cursor == s.Expect {
		return errors.New("nothing to skip")
	}
	return nil
}

func (s *skip) write(r *round) error {
	moved := settlement{Settlement{Sink: s.Sink, Expect: s.Expect, Cursor: s.Cursor}}
	if err := moved.write(r); err != nil {
		return err
	}
	c := countsOf(r.tx.Tx, s.Sink)
	c.skipped += s.Cursor - s.Expect
	if err := c.put(r.tx, s.Sink); err != nil {
		return err
	}
	return r.append([]transform.Event{s.Event})
}
