package admin

import (
	"context"
	"net/http"
)

// Maintainer is what a Control may also offer: to change what the state keeps of sinks and
// appliances. Its methods return ErrUnknown if the state keeps nothing under the name.
type Maintainer interface {
	// Forget deletes the cursor, the dead letters and the queued redeliveries of a sink. It
	// returns an error if the sink is configured.
	Forget(ctx context.Context, sink string) error
	// Rename moves what Forget would delete to another name. It returns an error if a sink
	// of either name is configured, or the state keeps something under the new one.
	Rename(ctx context.Context, sink, to string) error
	// ForgetAppliance deletes the positions of an appliance's streams, and what sources and
	// sinks remember about it, so that its streams begin at their start. It returns an error
	// while it is polled, or ticket commands for it are pending.
	ForgetAppliance(ctx context.Context, name string) error
	// ForgetIdentity deletes the finding that another appliance answers under a name, and
	// the identity that it was compared with.
	ForgetIdentity(ctx context.Context, name string) error
}

// maintain answers with the result of do, which is a conflict if it is not a known error.
func maintain(c Control, do func(Maintainer) error) (any, error) {
	m, ok := c.(Maintainer)
	if !ok {
		return nil, newProblem(http.StatusNotFound, "this bridge cannot change what its state keeps while it runs")
	}
	if err := do(m); err != nil {
		return nil, problemOf(err, http.StatusConflict)
	}
	return noContent{}, nil
}

func forgetSink(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	return maintain(c, func(m Maintainer) error { return m.Forget(r.Context(), r.PathValue("sink")) })
}

// renameRequest is the body of POST /api/v1/sinks/{sink}/rename.
type renameRequest struct {
	To string `json:"to"`
}

func renameSink(c Control, w http.ResponseWriter, r *http.Request) (any, error) {
	request, err := readRequest[renameRequest](w, r)
	if err != nil {
		return nil, err
	}
	if request.To == "" {
		return nil, newProblem(http.StatusBadRequest, `to is missing: write the new name, {"to": NAME}`)
	}
	return maintain(c, func(m Maintainer) error { return m.Rename(r.Context(), r.PathValue("sink"), request.To) })
}

// forgetRequest is the body of POST /api/v1/appliances/{appliance}/forget.
type forgetRequest struct {
	// Identity deletes only the identity.
	Identity bool `json:"identity"`
}

func forgetAppliance(c Control, w http.ResponseWriter, r *http.Request) (any, error) {
	request, err := readRequest[forgetRequest](w, r)
	if err != nil {
		return nil, err
	}
	return maintain(c, func(m Maintainer) error {
		if request.Identity {
			return m.ForgetIdentity(r.Context(), r.PathValue("appliance"))
		}
		return m.ForgetAppliance(r.Context(), r.PathValue("appliance"))
	})
}

var _ Maintainer = (*Client)(nil)

// Forget implements Maintainer.
func (c *Client) Forget(ctx context.Context, sink string) error {
	return c.do(ctx, post(nil, "sinks", sink, "forget"))
}

// Rename implements Maintainer.
func (c *Client) Rename(ctx context.Context, sink, to string) error {
	return c.do(ctx, post(renameRequest{to}, "sinks", sink, "rename"))
}

// ForgetAppliance implements Maintainer.
func (c *Client) ForgetAppliance(ctx context.Context, name string) error {
	return c.do(ctx, post(forgetRequest{}, "appliances", name, "forget"))
}

// ForgetIdentity implements Maintainer.
func (c *Client) ForgetIdentity(ctx context.Context, name string) error {
	return c.do(ctx, post(forgetRequest{Identity: true}, "appliances", name, "forget"))
}
