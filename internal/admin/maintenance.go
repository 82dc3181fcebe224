package admin

import (
	"context"
	"net/http"
)

// changed answers with the result of a change that the bridge may refuse. An error that is not
// a known one is a conflict.
func changed(err error) (any, error) {
	if err != nil {
		return nil, problemOf(err, http.StatusConflict)
	}
	return noContent{}, nil
}

func forgetSink(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	return changed(c.Forget(r.Context(), r.PathValue("sink")))
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
	return changed(c.Rename(r.Context(), r.PathValue("sink"), request.To))
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
	if request.Identity {
		return changed(c.ForgetIdentity(r.Context(), r.PathValue("appliance")))
	}
	return changed(c.ForgetAppliance(r.Context(), r.PathValue("appliance")))
}

// Forget implements Control.
func (c *Client) Forget(ctx context.Context, sink string) error {
	return c.do(ctx, post(nil, "sinks", sink, "forget"))
}

// Rename implements Control.
func (c *Client) Rename(ctx context.Context, sink, to string) error {
	return c.do(ctx, post(renameRequest{to}, "sinks", sink, "rename"))
}

// ForgetAppliance implements Control.
func (c *Client) ForgetAppliance(ctx context.Context, name string) error {
	return c.do(ctx, post(forgetRequest{}, "appliances", name, "forget"))
}

// ForgetIdentity implements Control.
func (c *Client) ForgetIdentity(ctx context.Context, name string) error {
	return c.do(ctx, post(forgetRequest{Identity: true}, "appliances", name, "forget"))
}
