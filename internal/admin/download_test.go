package admin

import (
	"net/http/httptest"
	"testing"
	"time"

	"ndrbridge/test/require"
)

func TestBackupEndsAtItsDeadline(t *testing.T) {
	answer := httptest.NewRecorder()
	d := &download{w: answer, end: time.Now().Add(time.Hour)}
	_, err := d.Write([]byte("first"))
	require.NoError(t, err)
	d.end = time.Now().Add(-time.Second)
	if _, err := d.Write([]byte("second")); err == nil || answer.Body.String() != "first" {
		t.Errorf("error %v, sent %q", err, answer.Body)
	}
}
