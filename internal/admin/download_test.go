package admin

import (
	"net/http/httptest"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestBackupEndsAtItsDeadline(t *testing.T) {
	answer := httptest.NewRecorder()
	d := &download{w: answer, end: time.Now().Add(time.Hour)}
	_, err := d.Write([]byte("first"))
	require.NoError(t, err)
	d.end = time.Now().Add(-time.Second)
	_, err = d.Write([]byte("second"))
	assert.True(t, err != nil && answer.Body.String() == "first", err, "sent", answer.Body)
}
