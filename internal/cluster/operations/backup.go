package operations

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// backup writes a tar archive with a copy of the state of each shard, named as the state's
// file of the shard is. The copies are made one after another, each consistent in itself.
// The largest needs space in the folder of the state. It fails if a shard cannot be
// asked.
func (c *control) backup(ctx context.Context, r admin.BackupRequest) error {
	select {
	case c.backingUp <- struct{}{}:
		defer func() { <-c.backingUp }()
	default:
		return fmt.Errorf("another backup is running; try again when it has ended: %w", admin.ErrBusy)
	}
	// Once a part is written, the error can no longer be reported.
	if err := missing(c.statuses(ctx)); err != nil {
		return err
	}
	state := c.o.Config().State
	archive := tar.NewWriter(r.To)
	for n := range c.shards.Count() {
		name := filepath.Base(state) + "." + configs.ShardName(n)
		if err := addState(ctx, archive, name, filepath.Dir(state), c.shards.Shard(n)); err != nil {
			return inShard(n, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("write the copy of the states: %w", err)
	}
	return nil
}

// addState adds the state of a shard to an archive. An archive has the size of a file in
// front of it, so the state is first written to a temporary file in a folder.
func addState(ctx context.Context, archive *tar.Writer, name, folder string, s *admin.Client) (err error) {
	file, err := os.CreateTemp(folder, "."+name+".backup-*")
	if err != nil {
		return fmt.Errorf("make a temporary file for the copy of a state: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	if err := s.Backup(ctx, file); err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: time.Now().Truncate(time.Second)})
	}
	if err == nil {
		_, err = io.Copy(archive, file)
	}
	if err != nil {
		return fmt.Errorf("write the copy of a state: %w", err)
	}
	return nil
}
