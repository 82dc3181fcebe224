package operations

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

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/forward"
	"ndrbridge/internal/tickets"
)

// remote is a Shard of another member.
type remote struct {
	*admin.Client
	http http.Client
}

// NewRemote returns the shard whose owner serves NewHandler on the subject of transport.
func NewRemote(transport http.RoundTripper) Shard {
	t := unavailableTransport{transport, "no member owns it"}
	return &remote{Client: admin.NewClientOver(t), http: http.Client{Transport: t}}
}

// Locate implements Shard.
func (r *remote) Locate(ctx context.Context, c tickets.Command, ask bool) ([]string, error) {
	return askRemote[[]string](ctx, &r.http, locatePath, locateRequest{c, ask})
}

// Accept implements Shard.
func (r *remote) Accept(ctx context.Context, commands []checkpoint.Command) ([]checkpoint.Acceptance, error) {
	all := make([]storedCommand, len(commands))
	for i, c := range commands {
		all[i] = storedCommand{c.Key, c.Appliance, c.Subject, c.Body, c.Accepted}
	}
	return askRemote[[]checkpoint.Acceptance](ctx, &r.http, acceptPath, all)
}

// NewMemberClient returns a client of the admin API of a member, which serves it on the
// subject of transport.
func NewMemberClient(transport http.RoundTripper) *admin.Client {
	return admin.NewClientOver(unavailableTransport{transport, "the member does not run"})
}

// Limits of what another member answers, in bytes.
const (
	maxAnswer    = 16 << 20
	maxErrorText = 4 << 10
)

// askRemote posts a request as JSON and decodes the JSON of the response.
func askRemote[Answer any](ctx context.Context, client *http.Client, path string, request any) (answer Answer, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return answer, fmt.Errorf("encode the request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return answer, fmt.Errorf("ask another member: %w", err)
	}
	resp, err := client.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // the address means nothing
	}
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answer, errorOf(resp)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("read the answer of another member: %w", err)
	}
	return answer, nil
}

// errorOf returns the error in a response.
func errorOf(resp *http.Response) error {
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	text := strings.ToValidUTF8(strings.TrimSpace(string(read)), "?")
	switch {
	case err != nil || text == "":
		return fmt.Errorf("another member answered %s", resp.Status)
	case resp.StatusCode == http.StatusInsufficientStorage:
		return checkpoint.ErrCommandsFull
	case resp.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("%s: %w", text, admin.ErrUnavailable)
	}
	return errors.New(text)
}

// unavailableTransport makes admin.ErrUnavailable of a transport's errors that another attempt may not
// meet.
type unavailableTransport struct {
	transport http.RoundTripper
	nobody    string // what it means that nobody serves the subject
}

// RoundTrip implements http.RoundTripper.
func (t unavailableTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.transport.RoundTrip(r)
	switch {
	case errors.Is(err, forward.ErrNobody):
		return nil, fmt.Errorf("%s: %w", t.nobody, admin.ErrUnavailable)
	case errors.Is(err, forward.ErrBusy), errors.Is(err, forward.ErrLost):
		return nil, fmt.Errorf("%w: %w", err, admin.ErrUnavailable)
	}
	return resp, err
}
