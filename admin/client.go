package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

// Client asks the admin API of a running bridge. It is a Control.
type Client struct {
	base  *url.URL
	token string
	http  http.Client
}

// NewClient returns a client of the API at address, which is an http or https
// URL without a path. token is the bearer token; empty: none.
func NewClient(address, token string) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("the address of the admin API must be a URL such as http://127.0.0.1:9600")
	}
	return &Client{base: base, token: token}, nil
}

// Rewind implements Control.
func (c *Client) Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error {
	body, err := c.post(ctx, "/api/v1/rewind", rewindRequest{source.Appliance, source.Stream, to})
	if err != nil {
		return err
	}
	return body.Close()
}

// Verify implements Control.
func (c *Client) Verify(ctx context.Context, appliance string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	body, err := c.post(ctx, "/api/v1/verify", verifyRequest{appliance, since})
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

// post sends a request and returns the body of an answer with a status of 2xx.
func (c *Client) post(ctx context.Context, path string, request any) (io.ReadCloser, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the bridge: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the bridge: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var p problem
	if json.NewDecoder(io.LimitReader(resp.Body, maxRequest)).Decode(&p) != nil || p.Detail == "" {
		return nil, fmt.Errorf("the bridge at %s answered %s", c.base.Host, resp.Status)
	}
	return nil, errors.New(p.Detail)
}
