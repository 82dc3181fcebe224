package operations

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/forward"
)

// NewHandler returns the handler with which a member answers others. of is called for each
// request; nil: the state is being opened. The handler does not authenticate: the rights to its
// NATS subject do.
func NewHandler(of func() *admin.Client) http.Handler {
	return admin.NewHandler(admin.Options{
		NotReady: func() []string { return nil }, Metrics: prometheus.NewRegistry(), ForMembers: true,
		Control: of, Tickets: func() admin.Tickets { return admin.Tickets{} },
	})
}

// NewRemote returns a client of the shard whose owner serves NewHandler on the subject of
// transport.
func NewRemote(transport http.RoundTripper) *admin.Client {
	return admin.NewClientOver(unavailableTransport{transport, "no member owns it"})
}

// NewMemberClient returns a client of a member, which serves NewHandler on the subject of
// transport.
func NewMemberClient(transport http.RoundTripper) *admin.Client {
	return admin.NewClientOver(unavailableTransport{transport, "the member does not run"})
}

// unavailableTransport makes admin.ErrUnavailable of a transport's errors that another attempt may not
// meet.
type unavailableTransport struct {
	transport http.RoundTripper
	nobody    string // the error if nobody serves the subject
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
