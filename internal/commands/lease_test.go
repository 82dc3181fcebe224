package commands_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

const term = 6 * time.Second

// hooked is a client that patches tickets with patch, unless that is nil.
type hooked struct {
	*appliance.Client
	patch func(ctx context.Context, ticketID string, change appliance.DetectionChange) error
}

func (c *hooked) PatchTicket(ctx context.Context, ticketID string, change appliance.DetectionChange) error {
	if c.patch == nil {
		return c.Client.PatchTicket(ctx, ticketID, change)
	}
	return c.patch(ctx, ticketID, change)
}

// newLeased returns a writer under a lease, and its client.
func newLeased(t *testing.T, store *checkpoint.Store, l *lease.Lease, o appliance.Options) (*commands.Writer, *hooked) {
	o.Key, o.Lease = func() (string, error) { return standin.DefaultAPIKey, nil }, l
	client := require.Value(appliance.New(o))(t)
	t.Cleanup(client.Close)
	ownWrites := require.Value(commands.LoadOwnWrites(t.Context(), store, "hq"))(t)
	c := &hooked{Client: client}
	return commands.NewWriter(c, store, ownWrites, commands.WriterOptions{
		Appliance: "hq", Kind: commands.KindTicket, RetryInitial: time.Second, RetryMax: time.Minute, Probe: 30 * time.Second, Lease: l,
		Log: slog.New(slog.DiscardHandler), Metrics: commands.NewWriterMetrics(prometheus.NewRegistry(), commands.KindTicket),
	}), c
}

func TestNoTicketIsWrittenWithoutALease(t *testing.T) {
	t.Parallel()
	for end, lapse := range map[string]func(*leasetest.Clock){
		"in time":                      func(c *leasetest.Clock) { c.Advance(term) },
		"while the process is stopped": func(c *leasetest.Clock) { c.Stop(term) }, // nothing has noticed
	} {
		for _, c := range []struct {
			name string
			hook func(c *hooked, r *sinktest.Relay, lapse func())
		}{
			{"before the command is begun", func(_ *hooked, _ *sinktest.Relay, lapse func()) { lapse() }},
			{"between the check and the request", func(c *hooked, _ *sinktest.Relay, lapse func()) {
				c.patch = func(ctx context.Context, ticketID string, change appliance.DetectionChange) error {
					lapse()
					return c.Client.PatchTicket(ctx, ticketID, change)
				}
			}},
			{"in the middle of the request", func(c *hooked, r *sinktest.Relay, lapse func()) {
				c.patch = func(ctx context.Context, ticketID string, change appliance.DetectionChange) error {
					r.Stall()
					time.AfterFunc(200*time.Millisecond, func() { lapse(); r.Resume() })
					assignee := strings.Repeat("x", 16<<20) // more than the buffers of a connection
					change.Assignee = &assignee
					return c.Client.PatchTicket(ctx, ticketID, change)
				}
			}},
		} {
			t.Run("it ends "+end+", "+c.name, func(t *testing.T) {
				t.Parallel()
				a, _ := withTicket(t)
				var whole atomic.Int32
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodPatch {
						a.ServeHTTP(w, r)
					} else if _, err := io.Copy(io.Discard, r.Body); err == nil {
						whole.Add(1)
					}
				}))
				defer server.Close()
				relay := sinktest.NewRelay(t, server.Listener.Addr().String())
				l, clock := leasetest.NewLease(term)
				store := newStore(t)
				w, client := newLeased(t, store, l, appliance.Options{URL: "http://" + relay.Addr()})
				accept(t, store, commands.Command{TicketID: "SEC-1", Status: "closed", Resolution: "action_taken"})
				w.Step(t.Context()) // receives it
				c.hook(client, relay, func() { lapse(clock) })
				pause := w.Step(t.Context())
				status := w.Status()
				assert.True(t, status.State == sinks.StateRetrying && status.Error == lease.ErrExpired.Error() && pause == time.Second, status.State, status.Error, pause)
				server.CloseClientConnections() // it has read what arrived
				got := states(t, store)
				require.True(t, got == "pending" && whole.Load() <= 0, "the command", got, whole.Load(), "changes arrived")
				l.Renew(clock.Now())
				client.patch = nil
				for range 3 { // a connection may be closed
					if states(t, store) == "pending" {
						w.Step(t.Context())
					}
				}
				if got := states(t, store); got != "applied" || whole.Load() != 1 {
					t.Errorf("with a lease the command is %s, and %d changes arrived; the writer is %s: %s", got, whole.Load(), w.Status().State, w.Status().Error)
				}
			})
		}
	}
}

func TestALeaseThatEndsIsNoFailureOfACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, id := withTicket(t)
		l, clock := leasetest.NewLease(term)
		store := newStore(t)
		w, client := newLeased(t, store, l, appliance.Options{URL: "http://sensor.example", Transport: inProcess(a, "", new(atomic.Int32))})
		hangs, tried := true, 0
		client.patch = func(ctx context.Context, ticketID string, change appliance.DetectionChange) error {
			if hangs {
				tried++
				<-ctx.Done()
				return errors.New("connection reset by peer")
			}
			return client.Client.PatchTicket(ctx, ticketID, change)
		}
		run(t, w)
		accept(t, store, commands.Command{TicketID: "SEC-1", Status: "acknowledged"})
		const times = 50
		for range times {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			clock.Advance(term)
			synctest.Wait()
			s := w.Status()
			require.True(t, s.State == sinks.StateRetrying && s.Error == lease.ErrExpired.Error(), "without a lease it", s.State, s.Error)
			// Another command succeeds: a failure would count.
			accept(t, store, commands.Command{TicketID: "SEC-2", DetectionID: id})
			l.Renew(clock.Now())
		}
		assert.Equal(t, tried, times, "it was tried", "times during", "leases")
		hangs = false
		clock.Advance(term)
		time.Sleep(time.Minute)
		l.Renew(clock.Now())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		c, _, err := store.Command(t.Context(), 1)
		assert.True(t, err == nil && c.State == checkpoint.CommandApplied, "the command", c.State, c.Reason, err)
	})
}
