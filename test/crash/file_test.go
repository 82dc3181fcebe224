package crash

import (
	"bufio"
	"errors"
	"io"
	"os"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// readFile records the events of the file in the ledger.
func (s *scene) readFile(t *testing.T) {
	t.Helper()
	file, err := os.Open(s.file)
	require.NoError(t, err)
	defer file.Close()
	for r := bufio.NewReader(file); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			assert.Empty(t, line, "the file ends within a line")
			return
		}
		require.NoError(t, err)
		e, err := transform.Parse(line[:len(line)-1])
		if err != nil {
			t.Errorf("%v: %s", err, line)
			continue
		}
		s.sensorOf(e).book.Receive(fileSink, e)
	}
}
