package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Status implements Control.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	err = c.ask(ctx, call{method: http.MethodGet, path: []string{"status"}}, &s)
	return s, err
}

// Backup implements Control. If it returns an error, what was written to w is not a
// usable copy.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	body, err := c.open(ctx, call{method: http.MethodPost, path: []string{"backup"}})
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("the copy of the state broke off: %w", err)
	}
	return nil
}

// Reload implements Control.
func (c *Client) Reload(ctx context.Context) (r Reloaded, err error) {
	err = c.ask(ctx, call{method: http.MethodPost, path: []string{"reload"}}, &r)
	return r, err
}
