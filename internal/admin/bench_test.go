package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ndrbridge/internal/admin"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// BenchmarkTail measures an event of 2 KB from Control to a client.
func BenchmarkTail(b *testing.B) {
	c := newControl(b)
	e := event(b, 1, `"`+strings.Repeat("x", 2<<10)+`"`)
	c.tail = func(_ context.Context, yield func(transform.Event) error) error {
		for range b.N {
			if err := yield(e); err != nil {
				return err
			}
		}
		return nil
	}
	client, _ := serve(b, c)
	b.SetBytes(int64(len(e.Structured())))
	b.ReportAllocs()
	seen, enough := 0, errors.New("enough")
	b.ResetTimer()
	err := client.Tail(b.Context(), admin.From{}, func(transform.Event) error {
		if seen++; seen == b.N {
			return enough
		}
		return nil
	})
	require.ErrorIs(b, err, enough)
}

// BenchmarkDead measures a page of 100 dead letters of 2 KB with their bodies.
func BenchmarkDead(b *testing.B) {
	c := newControl(b)
	c.journal(b, 100, `"`+strings.Repeat("x", 2<<10)+`"`)
	c.deliver(b, 100)
	client, _ := serve(b, c)
	b.ReportAllocs()
	for b.Loop() {
		if deadLetters, err := admin.API.ListDeadLetters.Call(b.Context(), client, admin.DeadRequest{OfDead: ofLake, Limit: 100}); err != nil || len(deadLetters.DeadLetters) != 100 {
			b.Fatal(len(deadLetters.DeadLetters), err)
		}
	}
}
