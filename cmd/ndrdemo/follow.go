package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// followFile calls receive for every complete line of a growing file, without the newline,
// until ctx is cancelled. It then reads the file to its end before it returns. It waits
// until the file exists. receive may keep line.
func followFile(ctx context.Context, path string, receive func(line []byte) error) error {
	var file *os.File
	var lines *bufio.Reader
	var line []byte // the part of the line that was read so far
	for last := false; ; {
		if file == nil {
			var err error
			if file, err = os.Open(path); err == nil {
				defer file.Close()
				lines = bufio.NewReader(file)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		for file != nil {
			part, err := lines.ReadBytes('\n')
			line = append(line, part...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if err := receive(line[:len(line)-1]); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			line = nil // receive may keep it
		}
		if last {
			return nil
		}
		const pause = 100 * time.Millisecond
		select {
		case <-ctx.Done():
			last = true
		case <-time.After(pause):
		}
	}
}
