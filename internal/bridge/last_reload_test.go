package bridge

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
)

func TestALoadThatChangesNothingCountsAsTheLastSuccess(t *testing.T) {
	last := newLastReload(prometheus.NewRegistry())
	later := time.Now().Add(time.Hour).Truncate(time.Second)
	assert.False(t, last.set(admin.ReloadStatus{Time: later, OK: true}, true), "a watch that finds what is there already has news")
	assert.Equal(t, testutil.ToFloat64(last.succeeded), float64(later.Unix()), "last loaded at", later.Unix())
}
