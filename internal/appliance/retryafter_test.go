package appliance

import (
	"net/http"
	"testing"
	"time"

	"ndrbridge/test/assert"
)

func TestRetryAfterIsPartOfEveryFailure(t *testing.T) {
	for _, status := range []int{200, 301, 401, 404, 429, 500, 503} {
		c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "Sun, 06 Nov 1994 08:50:07 GMT")
			w.Header().Set("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
			w.WriteHeader(status)
		})
		e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
		assert.Equal(t, e.RetryAfter, 30*time.Second, status, e)
		assert.Equal(t, e.Throttled(), status == 429 || status == 503, status, e)
	}
}
