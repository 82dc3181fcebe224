package sinks_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// parentOf returns the traceparent of the poll with a number.
func parentOf(poll int) string {
	return fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", poll)
}

// deliverTraced delivers one event for each of the traceparents and returns the recorded
// spans.
func deliverTraced(t *testing.T, parents []string, answer func(attempt int, ids []string) error) []sdk.ReadOnlySpan {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	f := newFixtureWith(t, 0, &target{answer: answer}, func(o *sinks.Options) {
		o.Batch.MaxEvents = 100
		o.Tracer = provider.Tracer("test")
		o.SpanAttributes = []attribute.KeyValue{attribute.String("messaging.system", "kafka")}
	})
	var events []transform.Event
	for i, parent := range parents {
		e, err := transform.New(transform.Attributes{
			ID: fmt.Sprint(i + 1), Source: "ndrbridge://hq/detections", Type: "t", RecordedTime: time.Now(), TraceParent: parent,
		}, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	source := checkpoint.Source{Appliance: "hq", Stream: "detections"}
	if err := f.store.Commit(t.Context(), checkpoint.Commit{Source: source, Expect: []byte("0"), Position: []byte("1"), Events: events}); err != nil {
		t.Fatal(err)
	}
	stop := f.start()
	time.Sleep(10 * time.Minute)
	stop()
	return recorder.Ended()
}

func valueOf(s sdk.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func TestDeliveryIsTraced(t *testing.T) {
	accepts := func(int, []string) error { return nil }
	for _, c := range []struct {
		name     string
		parents  []string
		answer   func(attempt int, ids []string) error
		outcomes []string // of the spans: outcome, events, failed events, attempt, links
	}{
		{"without a span if no event carries a traceparent", []string{"", ""}, accepts, nil},
		{"without a span if the traceparents are invalid", []string{"00-x", "y"}, accepts, nil},
		{"with a link to each poll, once", []string{parentOf(1), parentOf(1), "", parentOf(2), parentOf(1)}, accepts,
			[]string{"delivered 5  1 2"}},
		{"with a bounded number of links", func() (parents []string) {
			for poll := range 50 {
				parents = append(parents, parentOf(poll+1))
			}
			return parents
		}(), accepts, []string{"delivered 50  1 32"}},
		{"once for each attempt", []string{parentOf(1), parentOf(1)}, func(attempt int, _ []string) error {
			if attempt == 1 {
				return failure.Errorf(failure.Throttled, "429 slow down")
			}
			return nil
		}, []string{"throttled 2 2 1 1", "delivered 2  2 1"}},
		{"with the most severe outcome of its events", []string{parentOf(1), parentOf(1), parentOf(1)}, func(attempt int, ids []string) error {
			if attempt == 1 {
				return failure.EventErrors{nil, failure.Errorf(failure.Rejected, "400 bad"), errors.New("connection reset")}
			}
			return nil
		}, []string{"transient 3 2 1 1", "delivered 1  2 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				for _, s := range deliverTraced(t, c.parents, c.answer) {
					outcome := valueOf(s, "ndrbridge.outcome")
					got = append(got, fmt.Sprintf("%s %s %s %s %d", outcome, valueOf(s, "messaging.batch.message_count"),
						valueOf(s, "ndrbridge.failed_events"), valueOf(s, "ndrbridge.attempt"), len(s.Links())))
					if s.Name() != "send lake" || s.Parent().IsValid() || valueOf(s, "messaging.system") != "kafka" ||
						valueOf(s, "ndrbridge.sink") != "lake" || valueOf(s, "ndrbridge.bytes") == "0" ||
						(s.Status().Code == codes.Error) != (outcome != "delivered") {
						t.Errorf("%s %v %v", s.Name(), s.Attributes(), s.Status())
					}
				}
				if !slices.Equal(got, c.outcomes) {
					t.Errorf("spans %q, want %q", got, c.outcomes)
				}
			})
		})
	}
}
