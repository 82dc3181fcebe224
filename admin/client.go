package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client asks the admin API of a running bridge. It is a Control.
type Client struct {
	base  *url.URL
	token string
	http  http.Client
}

var _ Control = (*Client)(nil)

// NewClient returns a client of the API at address, which is an http or https
// URL without a path. token is the bearer token; empty: none.
func NewClient(address, token string) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("the address of the admin API must be a URL such as http://127.0.0.1:9600")
	}
	return &Client{base: base, token: token}, nil
}

// call is one request to the API.
type call struct {
	method string
	path   []string // behind /api/v1, segment by segment
	query  url.Values
	body   any // as JSON; nil: none
}

// open sends a request and returns the body of an answer with a status of 2xx.
func (c *Client) open(ctx context.Context, a call) (io.ReadCloser, error) {
	var body io.Reader
	if a.body != nil {
		encoded, err := json.Marshal(a.body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	segments := []string{"api", "v1"}
	for _, s := range a.path {
		// A segment of dots alone would be taken for a step up.
		segments = append(segments, strings.ReplaceAll(url.PathEscape(s), ".", "%2E"))
	}
	at := c.base.JoinPath(segments...)
	at.RawQuery = a.query.Encode()
	req, err := http.NewRequestWithContext(ctx, a.method, at.String(), body)
	if err != nil {
		return nil, fmt.Errorf("ask the bridge: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.send(req)
}

// send returns the body of an answer with a status of 2xx.
func (c *Client) send(req *http.Request) (io.ReadCloser, error) {
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
	return nil, &p
}

// ask sends a request and reads the JSON that it is answered with into answer;
// nil: the answer has no body.
func (c *Client) ask(ctx context.Context, a call, answer any) error {
	body, err := c.open(ctx, a)
	if err != nil {
		return err
	}
	defer body.Close()
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(body).Decode(answer); err != nil {
		return fmt.Errorf("read the bridge's answer: %w", err)
	}
	return nil
}
