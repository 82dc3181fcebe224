package admin_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// listed is a page of dead letters as JSON.
type listed struct {
	DeadLetters []map[string]any `json:"dead_letters"`
	Next        *string
}

func list(t *testing.T, address string) listed {
	t.Helper()
	answer, body := request(t, http.MethodGet, address, "", token)
	var page listed
	err := json.Unmarshal([]byte(body), &page)
	require.True(t, err == nil && answer.StatusCode == http.StatusOK && page.DeadLetters != nil, answer.StatusCode, body, err)
	return page
}

func TestDeadLettersAreListed(t *testing.T) {
	c := newControl(t)
	c.journal(t, 7, `{"title":"<script>"}`)
	c.deliver(t, 5)
	c.sourceDead(t, dns,
		checkpoint.DeadLetter{Key: "a/b?c", Class: "invalid", Reason: "no timestamp", Time: time.Unix(1, 0), Body: []byte(`{"n": 1.10}`)},
		checkpoint.DeadLetter{Key: "b", Class: "too_large", Reason: "cut", Time: time.Unix(2, 0), Body: []byte(`{"n":`)},
	)
	_, server := serve(t, c)
	sink, source := server.URL+"/api/v1/sinks/lake/dead", server.URL+"/api/v1/appliances/hq/dead"

	t.Run("with their attributes and without their bodies", func(t *testing.T) {
		page := list(t, sink)
		require.True(t, len(page.DeadLetters) == 5 && page.Next == nil, len(page.DeadLetters), "dead letters, next", page.Next, "want all 5")
		want := map[string]any{
			"key": checkpoint.DeadKey(1), "class": "rejected", "reason": "422 <no>", "reason_kind": "422 <no>", "time": "1970-01-01T00:16:40Z",
			"bytes": float64(len(event(t, 1, `{"title":"<script>"}`).Structured())), "event_id": "1",
		}
		assert.DeepEqual(t, page.DeadLetters[0], want)
	})
	t.Run("page by page", func(t *testing.T) {
		var ids []any
		after, pages := "", 0
		for ; ; pages++ {
			page := list(t, sink+"?limit=2&after="+after)
			for _, l := range page.DeadLetters {
				ids = append(ids, l["event_id"])
			}
			if page.Next == nil {
				break
			}
			after = *page.Next
		}
		assert.DeepEqual(t, ids, []any{"1", "2", "3", "4", "5"})
		assert.Equal(t, pages, 2, "pages that have another")
	})
	t.Run("the last page has no next", func(t *testing.T) {
		page := list(t, sink+"?limit=5")
		assert.True(t, len(page.DeadLetters) == 5 && page.Next == nil, len(page.DeadLetters), "dead letters, next", page.Next)
	})
	t.Run("of a stream", func(t *testing.T) {
		page := list(t, source+"?stream=records/dns&bodies=true")
		require.Equal(t, len(page.DeadLetters), 2, "dead letters")
		got := page.DeadLetters[1]["body_base64"]
		assert.True(t, got == base64.StdEncoding.EncodeToString([]byte(`{"n":`)) && page.DeadLetters[1]["event_id"] == nil, "a body that is not JSON", page.DeadLetters)
	})
	t.Run("of a stream without any", func(t *testing.T) {
		page := list(t, source+"?stream=detections")
		assert.Equal(t, len(page.DeadLetters), 0, page.DeadLetters)
	})
	t.Run("one with its body, with its numbers unchanged", func(t *testing.T) {
		_, body := request(t, http.MethodGet, source+"/a%2Fb%3Fc?stream=records/dns", "", token)
		assert.Contains(t, body, `"body":{"n":1.10}`)
	})
}

func TestPageOfLargeDeadLettersIsLimited(t *testing.T) {
	c := newControl(t)
	c.journal(t, 4, `"`+strings.Repeat("x", 600<<10)+`"`)
	c.deliver(t, 4)
	_, server := serve(t, c)
	page := list(t, server.URL+"/api/v1/sinks/lake/dead?bodies=true")
	assert.True(t, len(page.DeadLetters) == 2 && page.Next != nil, len(page.DeadLetters), "dead letters, next", page.Next, "want 2 and another page")
	page = list(t, server.URL+"/api/v1/sinks/lake/dead")
	assert.Equal(t, len(page.DeadLetters), 4, "dead letters without their bodies")
}

func TestDeadLettersAreRequeuedAndDropped(t *testing.T) {
	keys := func(n ...uint64) (keys []string) {
		for _, seq := range n {
			keys = append(keys, checkpoint.DeadKey(seq))
		}
		return keys
	}
	for _, test := range []struct {
		name    string
		keys    []string
		n, left int
		requeue bool
	}{
		{name: "drop some", keys: keys(2, 4, 9), n: 2, left: 3},
		{name: "drop all", keys: nil, n: 5},
		{name: "drop none", keys: []string{}, n: 0, left: 5},
		{name: "requeue some", keys: keys(3), n: 1, left: 4, requeue: true},
		{name: "requeue all", keys: nil, n: 5, requeue: true},
		{name: "requeue none", keys: []string{}, n: 0, left: 5, requeue: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newControl(t)
			c.journal(t, 5, `{}`)
			c.deliver(t, 5)
			client, _ := serve(t, c)
			selected := admin.Selection{OfDead: ofLake, Keys: test.keys, All: test.keys == nil}
			dropped, err := admin.Dropped{}, error(nil)
			if test.requeue {
				var requeued admin.Requeued
				requeued, err = admin.API.RequeueDeadLetters.Call(t.Context(), client, selected)
				dropped.N = requeued.N
			} else {
				dropped, err = admin.API.DropDeadLetters.Call(t.Context(), client, selected)
			}
			assert.Equal(t, dropped.N, test.n)
			assert.NoError(t, err)
			stats := require.Value(c.store.Stats(t.Context()))(t)
			assert.Equal(t, stats.DeadLetters[lake].Count, uint64(test.left), "are left", test.left)
			queued := stats.Sinks["lake"].Queued
			assert.True(t, !test.requeue || queued == uint64(test.n), queued, "are queued, want", test.n)
		})
	}
	t.Run("drop those of a stream", func(t *testing.T) {
		c := newControl(t)
		c.sourceDead(t, dns, checkpoint.DeadLetter{Key: "a"}, checkpoint.DeadLetter{Key: "b"})
		client, _ := serve(t, c)
		n, err := admin.API.DropDeadLetters.Call(t.Context(), client, admin.Selection{OfDead: ofDNS, Keys: []string{"b"}})
		assert.True(t, n.N == 1 && err == nil, n, err, "want 1")
	})
	t.Run("an invalid owner", func(t *testing.T) {
		client, _ := serve(t, newControl(t))
		for _, owner := range []admin.OfDead{{}, {Appliance: "hq"}} {
			_, err := admin.API.DropDeadLetters.Call(t.Context(), client, admin.Selection{OfDead: owner, All: true})
			assert.True(t, err != nil && strings.Contains(err.Error(), "stream is missing"), owner, err)
		}
	})
}

// TestDeadLettersAreUnchanged checks that a client receives any dead letter as stored:
// JSON without insignificant white space, other bodies byte by byte.
func TestDeadLettersAreUnchanged(t *testing.T) {
	c := newControl(t)
	client, _ := serve(t, c)
	owner := checkpoint.SourceOwner(dns)
	rapid.Check(t, func(r *rapid.T) {
		_, err := c.store.DropDead(t.Context(), owner, nil)
		require.NoError(t, err)
		body := rapid.OneOf(
			rapid.SliceOf(rapid.Byte()),
			rapid.SampledFrom([][]byte{nil, []byte("null"), []byte(`{"a": [1.10, "<&>\u2028"]}`), []byte(`{"a":1,"a":2}`), []byte("\"\xff\""), []byte("{\"a\":\n1}")}),
		)
		var want []checkpoint.DeadLetter
		for _, key := range rapid.SliceOfNDistinct(rapid.StringN(1, 40, 100), 0, 4, rapid.ID).Draw(r, "keys") {
			want = append(want, checkpoint.DeadLetter{
				Key: key, Class: "invalid", Reason: rapid.String().Draw(r, "reason"),
				Time: time.Unix(rapid.Int64Range(0, 1<<33).Draw(r, "time"), 0).UTC(), Body: body.Draw(r, "body"),
			})
		}
		c.sourceDead(t, dns, want...)
		slices.SortFunc(want, func(a, b checkpoint.DeadLetter) int { return strings.Compare(a.Key, b.Key) })
		got, err := admin.API.ListDeadLetters.Call(t.Context(), client, admin.DeadRequest{OfDead: ofDNS, Limit: 10, Bodies: true})
		require.True(r, err == nil && len(got.DeadLetters) == len(want), len(got.DeadLetters), "dead letters", err, len(want))
		for i, deadLetter := range got.DeadLetters {
			one, err := admin.API.GetDeadLetter.Call(t.Context(), client, admin.OfDeadLetter{OfDead: ofDNS, Key: want[i].Key})
			require.True(r, err == nil && reflect.DeepEqual(one, deadLetter), "shown", one, err, "listed", deadLetter)
			var compact bytes.Buffer
			if json.Compact(&compact, want[i].Body) == nil {
				want[i].Body = compact.Bytes()
			}
			body := slices.Concat(deadLetter.Body, deadLetter.BodyBase64)
			assert.True(r, bytes.Equal(body, want[i].Body), "body", string(body), string(want[i].Body))
			shown := checkpoint.DeadLetter{Key: deadLetter.Key, Class: deadLetter.Class, Reason: deadLetter.Reason, Time: deadLetter.Time}
			want[i].Body = nil
			assert.DeepEqual(r, shown, want[i])
		}
	})
}
