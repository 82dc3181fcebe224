package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"
)

// Backup implements Operations. It first makes the copy beside the state, at the disk's
// speed: as long as a transaction reads, the file grows with everything that is written.
func (s *Store) Backup(ctx context.Context, w io.Writer) (int64, error) {
	n, err := s.backup(ctx, w)
	if err != nil {
		return n, fmt.Errorf("back up the state: %w", err)
	}
	return n, nil
}

func (s *Store) backup(ctx context.Context, w io.Writer) (n int64, err error) {
	dir, name := split(s.path)
	file, err := os.CreateTemp(dir, name+".*.backup") // of mode 0600
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer func() { err = errors.Join(err, file.Close()) }()
	_ = os.Remove(file.Name()) // if an open file can be removed, a crash leaves nothing behind
	err = s.view(ctx, func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(contextWriter{ctx, file})
		return err
	})
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return 0, err
	}
	return io.Copy(contextWriter{ctx, w}, file)
}

// contextWriter writes until its context is done.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c contextWriter) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(b)
}
