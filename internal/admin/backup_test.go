package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestBackupIsAUsableState(t *testing.T) {
	c := newControl(t)
	c.journal(t, 50, `{}`)
	c.deliver(t, 3)
	client, server := serve(t, c)
	var copied bytes.Buffer
	require.NoError(t, client.Backup(t.Context(), &copied))
	path := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, os.WriteFile(path, copied.Bytes(), 0o600))
	store, err := checkpoint.Open(path, checkpoint.Options{})
	require.NoError(t, err)
	defer store.Close()
	stats, err := store.Stats(t.Context())
	assert.True(t, err == nil && stats.Events == 50 && stats.Sinks["lake"].Cursor == 50 && stats.DeadLetters[lake].Count == 3, "the copy holds", stats, err)

	answer, _ := request(t, http.MethodPost, server.URL+"/api/v1/backup", "", token)
	assert.Equal(t, answer.Header.Get("Content-Type"), "application/octet-stream", "content type")
	got := answer.Header.Get("Content-Disposition")
	assert.True(t, strings.HasPrefix(got, "attachment; filename="), "content disposition", got)
}

func TestTruncatedBackupIsAnError(t *testing.T) {
	for _, written := range []int{1, 1 << 10, 1 << 20} {
		t.Run(fmt.Sprintf("after %d bytes", written), func(t *testing.T) {
			c := newControl(t)
			c.backup = func(w io.Writer) error {
				_, err := w.Write(make([]byte, written))
				return errors.Join(err, errors.New("the disk failed"))
			}
			client, _ := serve(t, c)
			err := client.Backup(t.Context(), io.Discard)
			assert.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), err, "want an early EOF")
		})
	}
	t.Run("a backup that cannot start returns the reason", func(t *testing.T) {
		c := newControl(t)
		c.err = errors.New("no space left on device")
		client, _ := serve(t, c)
		var copied bytes.Buffer
		err := client.Backup(t.Context(), &copied)
		assert.True(t, err != nil && err.Error() == c.err.Error() && copied.Len() <= 0, err, copied.Len(), "bytes")
	})
	t.Run("a failing local write is an error", func(t *testing.T) {
		c := newControl(t)
		client, _ := serve(t, c)
		full := errors.New("the disk is full")
		assert.ErrorIs(t, client.Backup(t.Context(), refusing{full}), full)
	})
	t.Run("HTTP/1.0 is refused", func(t *testing.T) {
		_, server := serve(t, newControl(t))
		conn := require.Value(net.Dial("tcp", server.Listener.Addr().String()))(t)
		defer conn.Close()
		fmt.Fprintf(conn, "POST /api/v1/backup HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n", token)
		answer := require.Value(io.ReadAll(conn))(t)
		assert.True(t, strings.HasPrefix(string(answer), "HTTP/1.0 505 "))
	})
}

// refusing is a writer whose writes fail.
type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }
