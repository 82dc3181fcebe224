package bridge_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// A dead letter holds the CloudEvent, whole. It is redacted and encoded again when it is
// requeued.
func TestARequeuedEventIsSentInTheFormatOfItsSink(t *testing.T) {
	a, url := startAppliance(t, 0)
	var mu sync.Mutex
	var accepts bool
	var documents [][]byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Errorf("a body of some KB is not compressed: %v", err)
			return
		}
		body, err := io.ReadAll(text)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !accepts {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		documents = append(documents, body)
	}))
	t.Cleanup(server.Close)
	r := run(t, configuration(t, url, fmt.Sprintf("  - {name: soc, format: ecs, redact: [detection.title], webhook: {url: %q, gzip: true}, batch: {linger: 0}}\n", server.URL)))
	title := a.AddMany(1)[0].Title
	c, owner := r.control(t), admin.OfDead{Sink: "soc"}
	await(t, "the rejected event", func() bool { return sinkStatus(t, c, "soc").DeadLetters == 1 })
	list, err := admin.API.ListDeadLetters.Call(t.Context(), c, admin.DeadRequest{OfDead: owner, Limit: 10})
	require.True(t, err == nil && len(list.DeadLetters) == 1, len(list.DeadLetters), "dead letters", err)
	letter, err := admin.API.GetDeadLetter.Call(t.Context(), c, admin.OfDeadLetter{OfDead: owner, Key: list.DeadLetters[0].Key})
	require.NoError(t, err)
	stored, err := transform.Parse(letter.Body)
	require.True(t, err == nil && strings.Contains(string(stored.Data()), title), err, "the dead letter holds", string(letter.Body))
	mu.Lock()
	accepts = true
	mu.Unlock()
	n, err := admin.API.RequeueDeadLetters.Call(t.Context(), c, admin.Selection{OfDead: owner, All: true})
	require.True(t, n.N == 1 && err == nil, n, "requeued", err)
	await(t, "the requeued event", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(documents) == 1
	})
	r.stop()
	var document struct{ Event struct{ ID string } } // in ECS
	err = json.Unmarshal(documents[0], &document)
	assert.True(t, err == nil && document.Event.ID == stored.ID, err, "the document of", stored.ID, documents)
	assert.NotContains(t, string(documents[0]), title, "the title was sent")
}
