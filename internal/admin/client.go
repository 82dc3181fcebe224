package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"ndrbridge/internal/retryafter"
)

// Client carries out operations on a bridge: through the admin API of a running one, or by
// functions of this process.
type Client struct {
	local Operations // nil: the API

	base  *url.URL
	token string
	http  http.Client
}

// NewLocal returns a Client whose operations the functions carry out. The caller must not
// change all afterwards.
func NewLocal(all Operations) *Client { return &Client{local: all} }

// With returns a Client with the operations of c and others, which replace those of c.
func (c *Client) With(others Operations) *Client {
	all := maps.Clone(c.local)
	maps.Copy(all, others)
	return NewLocal(all)
}

// isMember reports whether the functions of c are those of a member of a cluster.
func (c *Client) isMember() bool { return c.local[API.GetCluster.route] != nil }

// errMissing returns the error of an operation for which c has no function.
func (c *Client) errMissing() error {
	if c.isMember() { // and does not own the log
		return fmt.Errorf("this member does not own the log of the cluster: %w", ErrUnavailable)
	}
	return errNoCluster // all bridges carry out the others
}

// NewClient returns a client of the API at address, an http or https URL without a user,
// which errors would show. token is the bearer token; it may be empty.
func NewClient(address, token string) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil {
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
	if errors.Is(err, http.ErrSchemeMismatch) {
		return nil, fmt.Errorf("the bridge at %s does not use TLS: write http:// instead of https://", c.base.Host)
	}
	if err != nil {
		return nil, c.unanswered(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxRequest))        // an incomplete one is no problem document
	const requiresTLS = "Client sent an HTTP request to an HTTPS server." // as net/http answers
	if bytes.HasPrefix(answer, []byte(requiresTLS)) {
		return nil, fmt.Errorf("the bridge at %s requires TLS: write https:// instead of http://", c.base.Host)
	}
	var p problem
	if json.Unmarshal(answer, &p) != nil || p.Detail == "" {
		return nil, fmt.Errorf("%s answered %s, but not as a bridge does; check the address, and a proxy in front of the bridge", c.base.Host, resp.Status)
	}
	if wait, ok := retryafter.Parse(resp.Header); ok {
		p.retryAfter = strconv.Itoa(int(wait.Seconds()))
	}
	return nil, &p
}

// unanswered returns the error of a request without a response: what most likely is wrong,
// without the layers of the network library.
func (c *Client) unanswered(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("ask the bridge at %s: %w; nothing listens there: check the address, and that the bridge is running", c.base, syscall.ECONNREFUSED)
	}
	return fmt.Errorf("ask the bridge at %s: %w", c.base, err)
}

// ask sends a request and decodes the JSON of the response.
func ask[T any](ctx context.Context, c *Client, a call) (answer T, err error) {
	body, err := c.open(ctx, a)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		if _, invalid := errors.AsType[*json.SyntaxError](err); invalid {
			return answer, fmt.Errorf("read the bridge's answer: %s did not send JSON, so it is not a bridge; check the address", c.base.Host)
		}
		return answer, fmt.Errorf("read the bridge's answer: %w", err)
	}
	return answer, nil
}

// do sends a request and ignores the body of the response.
func (c *Client) do(ctx context.Context, a call) error {
	body, err := c.open(ctx, a)
	if err != nil {
		return err
	}
	return body.Close()
}

// Status returns the bridge's current status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return API.GetStatus.Call(ctx, c, None{})
}

// Reload reloads the configuration. If it returns ErrConfiguration, the configuration is
// invalid. After any error, nothing was changed.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	return API.Reload.Call(ctx, c, None{})
}
