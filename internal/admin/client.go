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
	"strconv"
	"strings"
	"syscall"
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
	over  bool // a transport of its own leads to the API, and base means nothing
}

var _ Control = (*Client)(nil)

// NewClient returns a client of the API at address, an http or https URL without a user,
// which errors would show. token is the bearer token; it may be empty.
func NewClient(address, token string) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil {
		return nil, errors.New("the address of the admin API must be a URL such as http://127.0.0.1:9600")
	}
	return &Client{base: base, token: token}, nil
}

// NewClientOver returns a client of the API that a transport leads to, whatever the
// address. It sends no token.
func NewClientOver(transport http.RoundTripper) *Client {
	return &Client{base: &url.URL{Scheme: "http", Host: "localhost"}, http: http.Client{Transport: transport}, over: true}
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
	if failed, ok := errors.AsType[*url.Error](err); ok && c.over {
		return nil, failed.Err // the address means nothing
	}
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
	if !c.over && bytes.HasPrefix(answer, []byte(requiresTLS)) {
		return nil, fmt.Errorf("the bridge at %s requires TLS: write https:// instead of http://", c.base.Host)
	}
	var p problem
	switch {
	case json.Unmarshal(answer, &p) == nil && p.Detail != "":
	case c.over:
		return nil, fmt.Errorf("the bridge at %s answered %s", c.base.Host, resp.Status)
	default:
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
		if _, invalid := errors.AsType[*json.SyntaxError](err); invalid && !c.over {
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
	reloaded, err := ask[Reloaded](ctx, c, post(nil, "reload"))
	if p, ok := errors.AsType[*problem](err); ok && p.Status == http.StatusUnprocessableEntity {
		err = refused{p}
	}
	return reloaded, err
}

// refused is the problem of a reload that was refused. It is an ErrConfiguration.
type refused struct{ *problem }

// Is makes it match ErrConfiguration.
func (refused) Is(target error) bool { return target == ErrConfiguration }

// Unwrap returns the problem.
func (r refused) Unwrap() error { return r.problem }

// Pause implements Control.
func (c *Client) Pause(ctx context.Context, sink string) error {
	return c.do(ctx, post(nil, "sinks", sink, "pause"))
}

// Resume implements Control.
func (c *Client) Resume(ctx context.Context, sink string) error {
	return c.do(ctx, post(nil, "sinks", sink, "resume"))
}

// Replay implements Control.
func (c *Client) Replay(ctx context.Context, sink string, r Replay) (uint64, error) {
	answer, err := ask[struct{ Replayed uint64 }](ctx, c, post(r, "sinks", sink, "replay"))
	return answer.Replayed, err
}

// Rewind implements Control.
func (c *Client) Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error {
	return c.do(ctx, post(rewindRequest{Appliance: source.Appliance, Stream: source.Stream, To: to}, "rewind"))
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

// DeadGroups implements Control.
func (c *Client) DeadGroups(ctx context.Context, owner checkpoint.Owner) (DeadGroups, error) {
	list := get("dead")
	if sink, ok := owner.Sink(); ok {
		list.query.Set("sink", sink)
	} else if source, ok := owner.Source(); ok {
		list.query.Set("appliance", source.Appliance)
		list.query.Set("stream", source.Stream)
	}
	return ask[DeadGroups](ctx, c, list)
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
	source, ok := owner.Source()
	if !ok {
		return call{}, fmt.Errorf("%w owner of dead letters %q", ErrUnknown, owner)
	}
	return call{method: method, path: []string{"appliances", source.Appliance, "dead"}, query: url.Values{"stream": {source.Stream}}}, nil
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
