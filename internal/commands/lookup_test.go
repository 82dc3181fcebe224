package commands_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
)

func TestALookupThatDoesNotEndRejectsItsCommand(t *testing.T) {
	rows := func(from, n int, pad string) string {
		var all []string
		for id := from; id < from+n; id++ {
			all = append(all, fmt.Sprintf(`{"id":%d,"mod_time":%d,"assignee":%q}`, id+1, 1_750_000_000_000+id, pad))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	pad := strings.Repeat("x", 4<<20)
	for _, c := range []struct {
		name     string
		page     func(offset int) string // of detections with the ticket
		reason   string
		requests int32 // at most
	}{
		{"an appliance that ignores offset", func(int) string { return rows(0, 5, "") }, "ignores offset", 2},
		{"a ticket with detections without end", func(offset int) string { return rows(offset, 1000, "") }, "more than 10000 detections", 11},
		{"pages of one detection without end", func(offset int) string { return rows(offset, 1, "") }, "within 1000 pages", 1001},
		{"detections that are large", func(offset int) string { return rows(offset, 1000, strings.Repeat("x", 4000)) }, "32 MiB", 9},
		{"answers of much that is not kept", func(offset int) string {
			return fmt.Sprintf(`[{"id":%d,"mod_time":1750000000000,"description":"`, offset+1) + pad + `"}]`
		}, "128 MiB", 33},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var searches atomic.Int32
				other, id := withTicket(t)
				transport := roundTripper(func(r *http.Request) (*http.Response, error) {
					recorder := httptest.NewRecorder()
					var s struct {
						Offset int
						Filter struct {
							TicketID []string `json:"ticket_id"`
						}
					}
					switch {
					case strings.HasSuffix(r.URL.Path, "/detections/search"):
						if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
							return nil, err
						}
						if searches.Add(1) > 5000 {
							return nil, fmt.Errorf("the appliance returns pages without end")
						}
						recorder.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
						fmt.Fprint(recorder, c.page(s.Offset))
					default:
						other.ServeHTTP(recorder, r)
					}
					return recorder.Result(), nil
				})
				store := newStore(t)
				w := newWriter(t, store, "http://sensor.example", transport)
				accept(t, store, commands.Command{TicketID: "SEC-1", Status: "closed"}, commands.Command{TicketID: "SEC-2", DetectionID: id})
				run(t, w)
				time.Sleep(10 * time.Minute)
				got, _, err := store.Command(t.Context(), 1)
				assert.True(t, err == nil && got.State == checkpoint.CommandRejected && strings.Contains(got.Reason, c.reason), "it", got.State, got.Reason, err)
				n := searches.Load()
				assert.True(t, n <= c.requests, n, "searches were made, at most", c.requests, "are due")
				if got := states(t, store); got != "rejected applied" || w.Status().State != sinks.StateRunning {
					t.Errorf("the commands are %s, the writer is %+v", got, w.Status())
				}
			})
		})
	}
}

func TestASlowLookupIsRetriedWhileOtherTicketsContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, _ := withTicket(t)
		id := other.AddMany(1)[0].ID
		answer := inProcess(other, "", new(atomic.Int32))
		var slow atomic.Bool
		slow.Store(true)
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			if !slow.Load() || !strings.HasSuffix(r.URL.Path, "/detections/search") {
				return answer.RoundTrip(r)
			}
			time.Sleep(20 * time.Second)
			var s struct{ Offset int }
			if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
				return nil, err
			}
			recorder := httptest.NewRecorder()
			recorder.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
			fmt.Fprintf(recorder, `[{"id":%d,"mod_time":1750000000000}]`, s.Offset+1)
			return recorder.Result(), nil
		})
		store := newStore(t)
		w := newWriter(t, store, "http://sensor.example", transport)
		accept(t, store, commands.Command{TicketID: "SEC-1", Status: "closed"}, commands.Command{TicketID: "SEC-2", DetectionID: id})
		run(t, w)
		time.Sleep(150 * time.Second)
		if got := states(t, store); got != "pending applied" {
			t.Errorf("after the first lookup the commands are %s, the writer is %+v", got, w.Status())
		}
		time.Sleep(time.Hour)
		s := w.Status()
		assert.True(t, s.State == sinks.StateRetrying && strings.Contains(s.Error, "within 2m0s"), "while the appliance is slow the writer", s)
		slow.Store(false)
		time.Sleep(10 * time.Minute)
		if got := states(t, store); got != "applied applied" || w.Status().State != sinks.StateRunning {
			t.Errorf("after that the commands are %s, the writer is %+v", got, w.Status())
		}
	})
}
