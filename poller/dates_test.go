package poller_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// lying serves an appliance, and gives the nth answer the Date that wrong returns; empty:
// the true one.
func lying(t *testing.T, a *standin.Appliance, wrong func(n int64) string) string {
	var answers atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		a.ServeHTTP(recorder, r)
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		if date := wrong(answers.Add(1)); date != "" {
			w.Header().Set("Date", date)
		}
		w.WriteHeader(recorder.Code)
		w.Write(recorder.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestAWrongDateInFrontOfAnApplianceMovesNoStream(t *testing.T) {
	const history = 40
	now := func(now time.Time) time.Time { return now }
	options := func(start func(time.Time) time.Time) poller.StreamOptions {
		return poller.StreamOptions{
			Appliance: "hq", Start: start, PageSize: 20,
			Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: poller.NewMetrics(prometheus.NewRegistry()),
		}
	}
	streams := map[string]func(*appliance.Client, poller.Store) poller.Source{
		"detections": func(c *appliance.Client, store poller.Store) poller.Source {
			return poller.NewDetections(c, store, poller.DetectionsOptions{
				StreamOptions: options(now), Overlap: 2 * time.Minute,
				ReconcileEvery: 6 * time.Hour, ReconcileBack: 72 * time.Hour, ForgetAfter: 90 * 24 * time.Hour,
			})
		},
		"audit": func(c *appliance.Client, store poller.Store) poller.Source {
			return poller.NewAudit(c, store, poller.AuditOptions{StreamOptions: options(func(now time.Time) time.Time { return now.Add(-time.Minute) })})
		},
		"records/all": func(c *appliance.Client, store poller.Store) poller.Source {
			return poller.NewRecords(c, store, poller.RecordsOptions{
				StreamOptions: options(now), Query: "all", Window: time.Minute, MaxWindowRecords: 1000,
				Store: poller.StoreAuto, ContextTTL: time.Minute,
			})
		},
	}
	for stream, source := range streams {
		for _, date := range []string{"Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"} {
			for every := range int64(4) {
				t.Run(fmt.Sprintf("%s, %s in answer %d and each eighth behind it", stream, date[12:16], every+1), func(t *testing.T) {
					t.Parallel()
					a := standin.New(standin.Options{Seed: 1})
					begun := time.Now()
					a.SetSkew(-time.Hour)
					a.AddBacklog(history, 30*24*time.Hour)
					a.SetSkew(0)
					a.AddRecordsAt(history, begun.Add(-time.Hour).UnixMicro())
					url := lying(t, a, func(n int64) string {
						if n%8 == every+1 {
							return date
						}
						return ""
					})
					client, err := appliance.New(appliance.Options{URL: url, Key: func() (string, error) { return standin.DefaultAPIKey, nil }})
					require.NoError(t, err)
					t.Cleanup(client.Close)
					store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{})
					require.NoError(t, err)
					t.Cleanup(func() { store.Close() })
					s := source(client, store)
					poll := func() {
						t.Helper()
						require.Value(s.Poll(t.Context()))(t)
					}
					for range 5 {
						poll()
					}
					stats := require.Value(store.Stats(t.Context()))(t)
					assert.True(t, stats.Events == 0, stats.Events, "events of the time before the start are delivered")
					at, err := poller.ReadUpTo(t.Context(), store, s.Source())
					assert.True(t, err == nil && (at.IsZero() || !at.Before(begun.Add(-time.Minute)) && !at.After(time.Now())), "it is read up to", at, err)
					if stream == "detections" {
						time.Sleep(time.Second) // a Date has whole seconds
						a.AddMany(3)
						poll()
						assert.Equal(t, require.Value(store.Stats(t.Context()))(t).Events, 3, "events of 3 new detections")
					}
				})
			}
		}
	}
}
