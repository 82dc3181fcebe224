package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ndrbridge/transform"
)

// Tail implements Control. It returns an error if the stream ends before ctx is done.
func (c *Client) Tail(ctx context.Context, from From, yield func(transform.Event) error) error {
	query := url.Values{}
	if !from.Since.IsZero() {
		query.Set("since", from.Since.UTC().Format(time.RFC3339Nano))
	}
	if from.Last > 0 {
		query.Set("last", strconv.FormatUint(from.Last, 10))
	}
	body, err := c.open(ctx, call{method: http.MethodGet, path: []string{"events"}, query: query})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer body.Close()
	for r := bufio.NewReaderSize(body, 64<<10); ; {
		m, err := readMessage(r)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("the bridge ended the stream of events: it is stopping, or something between it and here did")
		case err != nil:
			return fmt.Errorf("the stream of events broke off: %w", err)
		case m.event == problemEvent:
			var p problem
			if err := json.Unmarshal(m.data, &p); err != nil {
				return fmt.Errorf("read the bridge's answer: %w", err)
			}
			return &p
		}
		event, err := transform.Parse(m.data)
		if err != nil {
			return fmt.Errorf("read the bridge's answer: %w", err)
		}
		if err := yield(event); err != nil {
			return err
		}
	}
}
