package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/retryafter"
	"ndrbridge/poller"
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

// NewClientOver returns a client of the API that a transport leads to, whatever the
// address. It sends no token.
func NewClientOver(transport http.RoundTripper) *Client {
	return &Client{base: &url.URL{Scheme: "http", Host: "localhost"}, http: http.Client{Transport: transport}}
}

// call is one request to the API.
type call struct {
	method string
	path   []string // the segments after /api/v1
	query  url.Values
	body   any // is encoded as JSON; nil: no body
}

func get(path ...string) call { return call{method: http.MethodGet, path: path, query: url.Values{}} }

func post(body any, path ...string) call {
	return call{method: http.MethodPost, path: path, body: body}
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
	if failed, ok := errors.AsType[*url.Error](err); ok && c.http.Transport != nil {
		return nil, failed.Err // the address means nothing
	}
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
	if wait, ok := retryafter.Parse(resp.Header); ok {
		p.retryAfter = strconv.Itoa(int(wait.Seconds()))
	}
	return nil, &p
}

// ask sends a request and decodes the JSON of the response.
func ask[T any](ctx context.Context, c *Client, a call) (answer T, err error) {
	body, err := c.open(ctx, a)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
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

// Status implements Control.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return ask[Status](ctx, c, get("status"))
}

// History implements Control.
func (c *Client) History(ctx context.Context) (History, error) {
	return ask[History](ctx, c, get("history"))
}

// Reload implements Control.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	return ask[Reloaded](ctx, c, post(nil, "reload"))
}

// Pause implements Control.
func (c *Client) Pause(ctx context.Context, sink string) error {
	return c.do(ctx, post(nil, "sinks", sink, "pause"))
}

// Resume implements Control.
func (c *Client) Resume(ctx context.Context, sink string) error {
	return c.do(ctx, post(nil, "sinks", sink, "resume"))
}

// Replay implements Control.
func (c *Client) Replay(ctx context.Context, sink string, since time.Time) (uint64, error) {
	answer, err := ask[struct{ Replayed uint64 }](ctx, c, post(replayRequest{since}, "sinks", sink, "replay"))
	return answer.Replayed, err
}

// Rewind implements Control.
func (c *Client) Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error {
	return c.do(ctx, post(rewindRequest{source.Appliance, source.Stream, to}, "rewind"))
}

// Verify implements Control.
func (c *Client) Verify(ctx context.Context, appliance string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	body, err := c.open(ctx, post(verifyRequest{appliance, since}, "verify"))
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

// Backup implements Control. If it returns an error, what was written to w is not a
// usable copy.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	body, err := c.open(ctx, post(nil, "backup"))
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("the copy of the state broke off: %w", err)
	}
	return nil
}

// Dead implements Control. A body that is JSON comes without insignificant white
// space.
func (c *Client) Dead(ctx context.Context, owner checkpoint.Owner, after string, limit int) ([]checkpoint.DeadLetter, error) {
	list, err := deadCall(http.MethodGet, owner)
	if err != nil {
		return nil, err
	}
	list.query.Set("bodies", "true")
	var deadLetters []checkpoint.DeadLetter
	for len(deadLetters) < limit {
		list.query.Set("after", after)
		list.query.Set("limit", strconv.Itoa(min(limit-len(deadLetters), maxPage)))
		page, err := ask[deadPage](ctx, c, list)
		if err != nil {
			return nil, err
		}
		for _, d := range page.DeadLetters {
			deadLetters = append(deadLetters, d.stored())
		}
		if after = page.Next; after == "" {
			break
		}
	}
	return deadLetters, nil
}

// DeadLetter implements Control. A body that is JSON comes without insignificant
// white space.
func (c *Client) DeadLetter(ctx context.Context, owner checkpoint.Owner, key string) (checkpoint.DeadLetter, error) {
	show, err := deadCall(http.MethodGet, owner)
	if err != nil {
		return checkpoint.DeadLetter{}, err
	}
	show.path = append(show.path, key)
	d, err := ask[DeadLetter](ctx, c, show)
	return d.stored(), err
}

// Requeue implements Control.
func (c *Client) Requeue(ctx context.Context, sink string, keys []string) (int, error) {
	answer, err := ask[struct{ Requeued int }](ctx, c, post(selected(keys), "sinks", sink, "requeue"))
	return answer.Requeued, err
}

// DropDead implements Control.
func (c *Client) DropDead(ctx context.Context, owner checkpoint.Owner, keys []string) (int, error) {
	drop, err := deadCall(http.MethodDelete, owner)
	if err != nil {
		return 0, err
	}
	drop.body = selected(keys)
	answer, err := ask[struct{ Dropped int }](ctx, c, drop)
	return answer.Dropped, err
}

// deadCall returns a request for the dead letters of an owner.
func deadCall(method string, owner checkpoint.Owner) (call, error) {
	if sink, ok := owner.Sink(); ok {
		return call{method: method, path: []string{"sinks", sink, "dead"}, query: url.Values{}}, nil
	}
	source, ok := strings.CutPrefix(string(owner), "source/")
	appliance, stream, found := strings.Cut(source, "/")
	if !ok || !found {
		return call{}, fmt.Errorf("%w owner of dead letters %q", ErrUnknown, owner)
	}
	return call{method: method, path: []string{"appliances", appliance, "dead"}, query: url.Values{"stream": {stream}}}, nil
}

// Commands implements Control. The commands have no keys and notes.
func (c *Client) Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error) {
	list := get("tickets")
	for name, value := range map[string]string{"appliance": f.Appliance, "ticket": f.Subject, "status": string(f.State)} {
		if value != "" {
			list.query.Set(name, value)
		}
	}
	var commands []checkpoint.Command
	for len(commands) < limit {
		list.query.Set("after", strconv.FormatUint(after, 10))
		list.query.Set("limit", strconv.Itoa(min(limit-len(commands), maxPage)))
		page, err := ask[commandPage](ctx, c, list)
		if err != nil {
			return nil, err
		}
		for _, command := range page.Commands {
			commands = append(commands, command.stored())
		}
		if after = page.Next; after == 0 {
			break
		}
	}
	return commands, nil
}

// Command implements Control. The command has no key and note.
func (c *Client) Command(ctx context.Context, id uint64) (checkpoint.Command, error) {
	command, err := ask[TicketCommand](ctx, c, get("tickets", strconv.FormatUint(id, 10)))
	return command.stored(), err
}

// RetryCommand implements Control.
func (c *Client) RetryCommand(ctx context.Context, id uint64) error {
	return c.do(ctx, post(nil, "tickets", strconv.FormatUint(id, 10), "retry"))
}

// DropCommand implements Control.
func (c *Client) DropCommand(ctx context.Context, id uint64) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"tickets", strconv.FormatUint(id, 10)}})
}

// Health returns nil if the bridge answers /healthz with 2xx. It needs no token.
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

// serverName is the Server header of every answer.
const serverName = "ndrbridge"

// IsBridge reports whether the admin interface of a bridge answers at address, an http
// URL without a path. It sends no token.
func IsBridge(ctx context.Context, address string) bool {
	client, err := NewClient(address, "")
	if err != nil {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, client.base.JoinPath("healthz").String(), nil)
	if err != nil {
		return false
	}
	req.Close = true
	resp, err := client.http.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.Header.Get("Server") == serverName
}

// DialAddress returns the address at which a listener on the address listen is reached
// from this machine: an unspecified host becomes loopback.
func DialAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}
