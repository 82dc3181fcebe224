package operations

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/tickets"
)

// The paths that the handler of a shard has in addition to those of the admin API. They are
// for members of the same cluster, of whatever version.
const (
	locatePath = "/locate" // locateRequest → list of names
	acceptPath = "/accept" // list of storedCommand → list of checkpoint.Acceptance
)

// maxAccept is the maximum size of the body of a request, in bytes. A request for accepted
// commands is larger than the body in which they arrived.
const maxAccept = 16 << 20

// locateRequest is the body of locatePath.
type locateRequest struct {
	Command tickets.Command `json:"command"`
	Ask     bool            `json:"ask,omitempty"`
}

// storedCommand is the JSON form of a command to store.
type storedCommand struct {
	Key       string          `json:"key,omitempty"`
	Appliance string          `json:"appliance"`
	Subject   string          `json:"subject"`
	Body      json.RawMessage `json:"body"`
	Accepted  time.Time       `json:"accepted"`
}

// NewHandler returns the handler with which the owner of a shard answers a remote Shard.
// shard is called for each request; nil: the shard is being opened. The handler does not
// authenticate: the rights to its NATS subject do.
func NewHandler(shard func() Shard) http.Handler {
	api := admin.NewHandler(admin.Options{
		NotReady: func() []string { return nil }, Metrics: prometheus.NewRegistry(),
		Control: func() admin.Control {
			if s := shard(); s != nil {
				return s
			}
			return nil
		},
		Tickets: func() admin.Tickets { return admin.Tickets{} },
	})
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.Handle("POST "+locatePath, answerWith(shard, func(ctx context.Context, s Shard, r locateRequest) ([]string, error) {
		return s.Locate(ctx, r.Command, r.Ask)
	}))
	mux.Handle("POST "+acceptPath, answerWith(shard, func(ctx context.Context, s Shard, all []storedCommand) ([]checkpoint.Acceptance, error) {
		commands := make([]checkpoint.Command, len(all))
		for i, c := range all {
			commands[i] = checkpoint.Command{Key: c.Key, Appliance: c.Appliance, Subject: c.Subject, Body: c.Body, Accepted: c.Accepted}
		}
		return s.Accept(ctx, commands)
	}))
	return mux
}

// answerWith returns a handler that decodes the body of a request, and encodes the result
// of do or writes its error as text.
func answerWith[Request, Answer any](shard func() Shard, do func(context.Context, Shard, Request) (Answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := shard()
		if s == nil {
			http.Error(w, "the state is being opened", http.StatusServiceUnavailable)
			return
		}
		var request Request
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAccept)).Decode(&request); err != nil {
			http.Error(w, "read the request of another member: "+err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := do(r.Context(), s, request)
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // fails only if the client is gone
	})
}

// statusOf returns the status for an error, from which errorOf makes it again.
func statusOf(err error) int {
	switch {
	case errors.Is(err, checkpoint.ErrCommandsFull):
		return http.StatusInsufficientStorage
	case errors.Is(err, checkpoint.ErrClosed), errors.Is(err, checkpoint.ErrNotOwner), errors.Is(err, admin.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
