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

// Client is a client of the admin API of a running bridge. It implements Control.
type Client struct {
	base  *url.URL
	token string
	http  http.Client
}

var _ Control = (*Client)(nil)

// NewClient returns a client of the API at address, an http or https URL without a
// path. token is the bearer token; it may be empty.
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
	path   []string // the segments after /api/v1
	query  url.Values
	body   any // is encoded as JSON; nil: no body
}

// open sends a request and returns the body of the response if its status is 2xx.
// Otherwise the error is a *problem, if the response contains one.
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
		// A segment of dots alone would be resolved as a relative path.
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

// send sends req with the token and returns the body of the response if its status
// is 2xx.
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

// ask sends a request and decodes the JSON of the response into answer. If answer is
// nil, the body is ignored.
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
