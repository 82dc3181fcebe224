package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

// Rewind implements Control.
func (c *Client) Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error {
	return c.ask(ctx, call{
		method: http.MethodPost, path: []string{"rewind"}, body: rewindRequest{source.Appliance, source.Stream, to},
	}, nil)
}

// Verify implements Control.
func (c *Client) Verify(ctx context.Context, appliance string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	body, err := c.open(ctx, call{method: http.MethodPost, path: []string{"verify"}, body: verifyRequest{appliance, since}})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var all []poller.Verification
	for r := bufio.NewReader(body); ; {
		text, err := r.ReadBytes('\n')
		if err != nil {
			return all, fmt.Errorf("the bridge's answer broke off: %w", err)
		}
		var line verifyLine
		if err := json.Unmarshal(text, &line); err != nil {
			return all, fmt.Errorf("read the bridge's answer: %w", err)
		}
		switch {
		case line.Progress != nil:
			report.Progress(line.Progress.Stream, line.Progress.Compared, line.Progress.At)
		case line.Difference != nil:
			report.Found(*line.Difference)
		case line.Verification != nil:
			all = append(all, *line.Verification)
		case line.Error != "":
			return all, errors.New(line.Error)
		case line.Done:
			return all, nil
		}
	}
}
