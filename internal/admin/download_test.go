package admin

import (
	"net/http/httptest"
	"testing"
	"time"
)

func TestBackupEndsAtItsDeadline(t *testing.T) {
	answer := httptest.NewRecorder()
	d := &download{w: answer, end: time.Now().Add(time.Hour)}
	if _, err := d.Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	d.end = time.Now().Add(-time.Second)
	if _, err := d.Write([]byte("second")); err == nil || answer.Body.String() != "first" {
		t.Errorf("error %v, sent %q", err, answer.Body)
	}
}
