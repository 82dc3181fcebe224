package operations_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/operations"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// event returns an event of a shard that was recorded at a second.
func event(t testing.TB, shard, id int, second int64) transform.Event {
	t.Helper()
	e, err := transform.New(transform.Attributes{
		ID: strconv.Itoa(id), Source: fmt.Sprintf("ndrbridge://%d/detections", shard), Type: "io.ndrbridge.detection.created",
		Appliance: "hq", RecordedTime: time.Unix(second, 0),
	}, []byte(`{}`))
	require.NoError(t, err)
	return e
}

// journalled makes a shard tail events of its journal: first those that from selects, then
// all further ones of later, until ctx is done.
func (s *shard) journalled(journal []transform.Event, later <-chan transform.Event) {
	s.status.State.Journal.Events = uint64(len(journal))
	s.tail = func(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
		for i, e := range journal {
			if from.Since.IsZero() && i < len(journal)-int(from.Last) || e.RecordedTime.Before(from.Since) {
				continue
			}
			if err := yield(e); err != nil {
				return err
			}
		}
		for {
			select {
			case e := <-later:
				journal = append(journal, e)
				if err := yield(e); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func TestTailMergesTheShards(t *testing.T) {
	for _, test := range []struct {
		name string
		from admin.From
		want []string // sorted
	}{
		{"nothing of the journal", admin.From{}, nil},
		{"since a time", admin.From{Since: time.Unix(3, 0)}, []string{"0/3", "0/4", "2/3"}},
		{"the last, divided among the shards", admin.From{Last: 4}, []string{"0/3", "0/4", "2/2", "2/3"}},
		{"more than there are", admin.From{Last: 100}, []string{"0/1", "0/2", "0/3", "0/4", "2/1", "2/2", "2/3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				later := make(chan transform.Event)
				for n, count := range []int{4, 0, 3} {
					var journal []transform.Event
					for i := 1; i <= count; i++ {
						journal = append(journal, event(t, n, i, int64(i)))
					}
					c.shards[n].journalled(journal, map[bool]chan transform.Event{true: later}[n == 1])
				}
				ctx, cancel := context.WithCancel(t.Context())
				var got []string
				done := make(chan error)
				go func() {
					done <- c.control(t).Tail(ctx, test.from, func(e transform.Event) error {
						got = append(got, e.Source[len("ndrbridge://"):][:1]+"/"+e.ID)
						return nil
					})
				}()
				synctest.Wait()
				slices.Sort(got)
				if !reflect.DeepEqual(got, test.want) {
					t.Errorf("%v, want %v", got, test.want)
				}
				later <- event(t, 1, 9, 9)
				synctest.Wait()
				if got[len(got)-1] != "1/9" {
					t.Errorf("%v, want a new one too", got)
				}
				cancel()
				if err := <-done; err != nil {
					t.Errorf("%v, want nil when the client has left", err)
				}
			})
		})
	}
}

func TestTailIsLiveWhenEveryShardIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		for n, s := range c.shards {
			s.tail = func(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
				time.Sleep(time.Duration(n) * time.Second)
				if n == 2 {
					if from.Live != nil {
						return errDown
					}
					return yield(event(t, n, 2, 2))
				}
				if err := yield(event(t, n, 1, 1)); err != nil {
					return err
				}
				if err := from.Live(nil); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			}
		}
		var got []string
		enough := errors.New("enough")
		err := c.control(t).Tail(t.Context(), admin.From{Since: time.Unix(1, 0), Live: func(missing error) error {
			got = append(got, fmt.Sprint(missing))
			return nil
		}}, func(e transform.Event) error {
			if got = append(got, e.Source); e.ID == "2" {
				return enough
			}
			return nil
		})
		want := []string{"ndrbridge://0/detections", "ndrbridge://1/detections", "shard 02: " + errDown.Error(), "ndrbridge://2/detections"}
		if !errors.Is(err, enough) || !slices.Equal(got, want) {
			t.Errorf("%q (%v), want %q", got, err, want)
		}
	})
}

func TestTailAsksShardsWithAppliancesForTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(8)
		config := &configs.Config{Appliances: []configs.Appliance{{Name: c.applianceIn(3)}}}
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan uint64, 8)
		for _, s := range c.shards {
			s.tail = func(ctx context.Context, from admin.From, _ func(transform.Event) error) error {
				asked <- from.Last
				<-ctx.Done()
				return nil
			}
		}
		done := make(chan error)
		go func() {
			control := operations.New(operations.Options{Shards: c, Config: func() *configs.Config { return config }})
			done <- control.Tail(ctx, admin.From{Last: 9}, func(transform.Event) error { return nil })
		}()
		for range c.shards {
			if last := <-asked; last != 5 {
				t.Errorf("the last %d, want half of 9: shard 0 has the bridge's own events", last)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestTailGoesOnWithTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(2)
		c.shards[0].journalled(nil, nil)
		journal := []transform.Event{event(t, 1, 1, 1), event(t, 1, 2, 2), event(t, 1, 3, 2)}
		var calls atomic.Int32
		c.shards[1].tail = func(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
			call := calls.Add(1)
			if call == 1 {
				for _, e := range journal {
					if err := yield(e); err != nil {
						return err
					}
				}
				return errors.New("the connection through NATS was lost")
			}
			if call < 4 {
				return errDown
			}
			if !from.Since.Equal(time.Unix(2, 0)) {
				t.Errorf("since %s, want the time of the last event", from.Since)
			}
			for _, e := range append(journal[1:], event(t, 1, 4, 2), event(t, 1, 5, 3)) {
				if err := yield(e); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return nil
		}
		enough := errors.New("enough")
		var got []string
		err := c.control(t).Tail(t.Context(), admin.From{Since: time.Unix(0, 0)}, func(e transform.Event) error {
			if got = append(got, e.ID); len(got) == 7 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || fmt.Sprint(got) != "[1 2 3 2 3 4 5]" {
			t.Errorf("%v (%v), want those of the last time again, then the others", got, err)
		}
	})
}

func TestTailBeginsWithAShardThatIsAvailableLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(1)
		begun := time.Now()
		c.shards[0].fail(errDown)
		c.shards[0].tail = func(_ context.Context, from admin.From, yield func(transform.Event) error) error {
			if !from.Since.Equal(begun) || from.Last != 0 {
				t.Errorf("from %+v, want what was recorded since the tail began", from)
			}
			return yield(event(t, 0, 1, 1))
		}
		go func() {
			time.Sleep(time.Minute)
			c.shards[0].fail(nil)
		}()
		enough := errors.New("enough")
		if err := c.control(t).Tail(t.Context(), admin.From{Last: 10}, func(transform.Event) error { return enough }); !errors.Is(err, enough) {
			t.Error(err)
		}
	})
}
