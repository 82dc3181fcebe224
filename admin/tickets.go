package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/checkpoint"
	"ndrbridge/tickets"
	"ndrbridge/tickets/webhookintake"
)

// Tickets holds the HTTP intakes for ticket commands.
type Tickets struct {
	// Acceptor is nil while tickets.enabled is false.
	Acceptor Acceptor
	// Webhooks are the receivers of ticket systems' webhooks, by the last part of their
	// paths.
	Webhooks map[string]*webhookintake.Receiver
}

// Acceptor stores ticket commands. tickets.Acceptor implements it.
type Acceptor interface {
	Accept(ctx context.Context, key string, commands []tickets.Command) ([]checkpoint.Acceptance, error)
	Count(what tickets.Received)
}

// accepted is the response to a request with ticket commands.
type accepted struct {
	Commands []acceptedCommand `json:"commands"`
	// Ignored is the reason if a ticket system's webhook contained no command.
	Ignored string `json:"ignored,omitempty"`
}

type acceptedCommand struct {
	ID uint64 `json:"id"`
	// Duplicate reports whether the command had been accepted before.
	Duplicate bool   `json:"duplicate,omitempty"`
	Location  string `json:"location"` // the path of the command in the API
}

// maxKey is the maximum length of an Idempotency-Key, in bytes.
const maxKey = 255

func (o Options) takeCommands(_ Control, w http.ResponseWriter, r *http.Request) {
	acceptor := o.acceptor(w)
	if acceptor == nil {
		return
	}
	if sent := r.Header.Get("Content-Type"); sent != "" {
		media, _, err := mime.ParseMediaType(sent)
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			writeProblem(w, http.StatusUnsupportedMediaType, "send the command as application/json")
			return
		}
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		writeProblem(w, http.StatusBadRequest, fmt.Sprintf("the Idempotency-Key is longer than %d bytes", maxKey))
		return
	}
	body, ok := readBody(w, r, maxRequest)
	if !ok {
		return
	}
	commands, several, err := tickets.Parse(body)
	if err != nil {
		acceptor.Count(tickets.ReceivedRefused)
		writeRefusal(w, err, false)
		return
	}
	if key != "" {
		key = "http/" + key
	}
	accept(acceptor, w, r, acceptance{key, commands, several})
}

// takeWebhook accepts the command in a ticket system's webhook. The sender is
// authenticated by the token or, if bySecret passed the request on, by the webhook's
// secret, which is verified here.
func (o Options) takeWebhook(_ Control, w http.ResponseWriter, r *http.Request) {
	acceptor := o.acceptor(w)
	if acceptor == nil {
		return
	}
	name, known := r.PathValue("id"), o.Tickets().Webhooks
	receiver := known[name]
	if receiver == nil {
		detail := fmt.Sprintf("tickets.webhooks has no %.80q", name)
		if len(known) > 0 {
			detail += ": it has " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
		}
		writeProblem(w, http.StatusNotFound, detail)
		return
	}
	if !receiver.Verifies() && o.Token == "" {
		writeProblem(w, http.StatusForbidden, "this webhook has no secret, and there is no admin.token: set one of them")
		return
	}
	if err := receiver.VerifyHeader(r.Header); errors.Is(err, webhookintake.ErrUnverified) {
		refuseUnverified(acceptor, w, err)
		return
	}
	body, ok := readBody(w, r, webhookintake.MaxBody)
	if !ok {
		return
	}
	switch err := receiver.Verify(r.Header, body); {
	case errors.Is(err, webhookintake.ErrUnverified):
		refuseUnverified(acceptor, w, err)
		return
	case err != nil:
		// The caller is not authenticated and must not learn where secrets are stored.
		writeProblem(w, http.StatusServiceUnavailable, "the secret of this webhook cannot be read: ndrbridge check shows why")
		return
	}
	notice, err := receiver.Read(r.Header, body)
	switch {
	case err != nil:
		acceptor.Count(tickets.ReceivedRefused)
		writeRefusal(w, err, false)
		return
	case notice.Ignored != "":
		acceptor.Count(tickets.ReceivedIgnored)
		writeAccepted(w, accepted{Commands: []acceptedCommand{}, Ignored: notice.Ignored})
		return
	}
	key := notice.Key
	if key != "" {
		key = name + "/" + key
	}
	accept(acceptor, w, r, acceptance{key, []tickets.Command{notice.Command}, false})
}

func refuseUnverified(acceptor Acceptor, w http.ResponseWriter, err error) {
	acceptor.Count(tickets.ReceivedUnverified)
	w.Header().Set("Connection", "close")
	writeProblem(w, http.StatusUnauthorized, err.Error())
}

// acceptor returns the Acceptor. If there is none, it writes a problem and returns nil.
func (o Options) acceptor(w http.ResponseWriter) Acceptor {
	acceptor := o.Tickets().Acceptor
	if acceptor == nil {
		writeProblem(w, http.StatusNotFound, "tickets.enabled is false: set it, and the bridge writes tickets to its appliances")
	}
	return acceptor
}

// acceptance is a set of commands to be accepted in one transaction.
type acceptance struct {
	key      string // the idempotency key; empty: none
	commands []tickets.Command
	several  bool // the request contained a list
}

func accept(acceptor Acceptor, w http.ResponseWriter, r *http.Request, a acceptance) {
	acceptances, err := acceptor.Accept(r.Context(), a.key, a.commands)
	if err != nil {
		writeRefusal(w, err, a.several)
		return
	}
	var answer accepted
	for _, c := range acceptances {
		answer.Commands = append(answer.Commands, acceptedCommand{c.ID, c.Duplicate, "/api/v1/tickets/" + strconv.FormatUint(c.ID, 10)})
	}
	if len(answer.Commands) == 1 {
		w.Header().Set("Location", answer.Commands[0].Location)
	}
	writeAccepted(w, answer)
}

func writeAccepted(w http.ResponseWriter, answer accepted) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(answer) // fails only if the client is gone
}

// writeRefusal writes a problem with the reason why nothing was stored. If several is
// true, it names the field of a list's item with the item's index.
func writeRefusal(w http.ResponseWriter, err error, several bool) {
	var wrong *tickets.FieldError
	var syntax *tickets.SyntaxError
	switch {
	case errors.As(err, &wrong):
		p := newProblem(http.StatusUnprocessableEntity, wrong.Error())
		p.Field, p.Allowed = wrong.Field, wrong.Allowed
		if several {
			at := fmt.Sprintf("[%d]", wrong.Index)
			p.Detail = at + " " + p.Detail
			p.Field = strings.TrimSuffix(at+"."+wrong.Field, ".")
		}
		p.write(w)
	case errors.As(err, &syntax):
		p := newProblem(http.StatusBadRequest, syntax.Error())
		p.Field = syntax.Field
		p.write(w)
	case errors.Is(err, webhookintake.ErrSyntax):
		writeProblem(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, checkpoint.ErrCommandsFull):
		w.Header().Set("Retry-After", "60")
		writeProblem(w, http.StatusServiceUnavailable, err.Error()+": ndrbridge tickets list --status pending shows them")
	default:
		// Other errors are temporary: ticket systems retry on a 503.
		writeProblem(w, statusOf(err, http.StatusServiceUnavailable), err.Error())
	}
}

// readBody reads a body of at most limit bytes. If it is larger, empty or incomplete,
// readBody writes a problem and returns false.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, errBodies):
		writeBusy(w, err.Error())
	case errors.As(err, &tooLarge):
		writeProblem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
	case err != nil:
		writeProblem(w, http.StatusBadRequest, "the body broke off")
	case len(bytes.TrimSpace(body)) == 0:
		writeProblem(w, http.StatusBadRequest, "the body is missing: send JSON")
	default:
		return body, true
	}
	return nil, false
}

// bySecret passes requests to a webhook with a secret of its own directly to api, which
// verifies the secret: such a ticket system cannot send the token, and may use any host
// name for the bridge. It passes all other requests to next.
func (o Options) bySecret(api, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("POST /api/v1/tickets/{webhook}", func(w http.ResponseWriter, r *http.Request) {
		if o.Control() != nil {
			if receiver := o.Tickets().Webhooks[r.PathValue("webhook")]; receiver != nil && receiver.Verifies() {
				api.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
	return mux
}
