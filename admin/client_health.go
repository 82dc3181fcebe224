package admin

import (
	"context"
	"fmt"
	"net/http"
)

// Health asks whether the bridge lives: nil when /healthz says so. It needs no
// token.
func (c *Client) Health(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("healthz").String(), nil)
	if err != nil {
		return fmt.Errorf("ask the bridge: %w", err)
	}
	body, err := c.send(req)
	if err != nil {
		return err
	}
	return body.Close()
}
