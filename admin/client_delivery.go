package admin

import (
	"context"
	"net/http"
	"time"
)

// Replay implements Control.
func (c *Client) Replay(ctx context.Context, sink string, since time.Time) (uint64, error) {
	var done replayed
	err := c.ask(ctx, call{method: http.MethodPost, path: []string{"sinks", sink, "replay"}, body: replayRequest{since}}, &done)
	return done.Replayed, err
}

// Pause implements Control.
func (c *Client) Pause(ctx context.Context, sink string) error {
	return c.ask(ctx, call{method: http.MethodPost, path: []string{"sinks", sink, "pause"}}, nil)
}

// Resume implements Control.
func (c *Client) Resume(ctx context.Context, sink string) error {
	return c.ask(ctx, call{method: http.MethodPost, path: []string{"sinks", sink, "resume"}}, nil)
}
