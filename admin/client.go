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
	"time"

	"ndrbridge/checkpoint"
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

// Commands implements Control. The commands have no keys and notes.
func (c *Client) Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error) {
	query := url.Values{}
	for name, value := range map[string]string{"appliance": f.Appliance, "ticket": f.Subject, "status": string(f.State)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var commands []checkpoint.Command
	for len(commands) < limit {
		query.Set("after", strconv.FormatUint(after, 10))
		query.Set("limit", strconv.Itoa(min(limit-len(commands), maxCommands)))
		var page commandPage
		if err := c.ask(ctx, call{method: http.MethodGet, path: []string{"tickets"}, query: query}, &page); err != nil {
			return nil, err
		}
		for _, command := range page.Commands {
			commands = append(commands, command.command())
		}
		if page.Next == 0 {
			break
		}
		after = page.Next
	}
	return commands, nil
}

// Command implements Control. The command has no key and note.
func (c *Client) Command(ctx context.Context, id uint64) (checkpoint.Command, error) {
	var command TicketCommand
	if err := c.ask(ctx, call{method: http.MethodGet, path: commandPath(id)}, &command); err != nil {
		return checkpoint.Command{}, err
	}
	return command.command(), nil
}

// RetryCommand implements Control.
func (c *Client) RetryCommand(ctx context.Context, id uint64) error {
	return c.ask(ctx, call{method: http.MethodPost, path: append(commandPath(id), "retry")}, nil)
}

// DropCommand implements Control.
func (c *Client) DropCommand(ctx context.Context, id uint64) error {
	return c.ask(ctx, call{method: http.MethodDelete, path: commandPath(id)}, nil)
}

func commandPath(id uint64) []string { return []string{"tickets", strconv.FormatUint(id, 10)} }

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

// Replay implements Control.
func (c *Client) Replay(ctx context.Context, sink string, since time.Time) (uint64, error) {
	var done replayed
	err := c.ask(ctx, call{method: http.MethodPost, path: []string{"sinks", sink, "replay"}, body: replayRequest{since}}, &done)
	return done.Replayed, err
}

// Pause implements Control.
func (c *Client) Pause(ctx context.Context, sink string) error {
	return c.ask(ctx, call{method: http.MethodPost, path: []string{"sinks", sink, "pause"}}, nil)
}

// Resume implements Control.
func (c *Client) Resume(ctx context.Context, sink string) error {
	return c.ask(ctx, call{method: http.MethodPost, path: []string{"sinks", sink, "resume"}}, nil)
}

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
