package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/assert"
)

func TestProgressIsApartFromResults(t *testing.T) {
	for _, test := range []struct {
		name     string
		terminal bool
		lasts    time.Duration
		want     string
	}{
		{"a terminal shows it in one line, which is erased", true, 2500 * time.Millisecond, "\r\x1b[Kat 1s\r\x1b[Kat 2s\r\x1b[Kresult\n"},
		{"a terminal shows nothing of short work", true, 500 * time.Millisecond, "result\n"},
		{"a file gets few lines", false, 25 * time.Second, "at 10s\nat 20s\nresult\n"},
		{"a file gets nothing of work that is done soon", false, 9 * time.Second, "result\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				p := NewProgress(&out)
				p.terminal = test.terminal
				failed := errors.New("failed")
				err := p.While(func(elapsed time.Duration) string { return "at " + Duration(elapsed) }, func() error {
					time.Sleep(test.lasts)
					return failed
				})
				fmt.Fprintln(&out, "result")
				assert.Equal(t, out.String(), test.want)
				assert.ErrorIs(t, err, failed)
			})
		})
	}
}

func TestProgressFitsIntoALine(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out)
	p.terminal = true
	p.Show(string(bytes.Repeat([]byte("x"), 200)) + "\x1b[2J\n")
	p.Clear()
	p.Clear()
	assert.Equal(t, out.String(), eraseLine+string(bytes.Repeat([]byte("x"), 78))+"…"+eraseLine)
}
