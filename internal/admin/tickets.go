package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/commands/webhookintake"
)

// Tickets holds the HTTP intakes for commands.
type Tickets struct {
	// Acceptor is nil while tickets.enabled is false, and at a member of a cluster that does not own
	// its log.
	Acceptor Acceptor
	// Webhooks are the receivers of ticket systems' webhooks, by the last part of their
	// paths.
	Webhooks map[string]*webhookintake.Receiver
}

// Acceptor stores commands. commands.Acceptor implements it.
type Acceptor interface {
	Accept(ctx context.Context, key string, commands []commands.Command) ([]checkpoint.Acceptance, error)
	Count(what commands.Received)
}

// accepted is the response to a request with commands.
type accepted struct {
	Commands []acceptedCommand `json:"commands"`          // the commands, in the order of the request
	Ignored  string            `json:"ignored,omitempty"` // why a webhook contained no command
}

type acceptedCommand struct {
	ID        uint64 `json:"id"`                  // its id
	Duplicate bool   `json:"duplicate,omitempty"` // whether it had been accepted before
	Location  string `json:"location"`            // its path
}

// maxKey is the maximum length of an Idempotency-Key, in bytes.
const maxKey = 255

// takeTickets accepts ticket commands.
func (o Options) takeTickets(_ *Client, w http.ResponseWriter, r *http.Request) (any, error) {
	return o.takeCommands(w, r, func(c commands.Command) error {
		if kind := c.Kind(); kind != commands.KindTicket {
			return &commands.FieldError{Problem: fmt.Sprintf("the command is about a %s: send it to /api/v1/commands", kind)}
		}
		return nil
	})
}

// takeAll accepts commands of any kind.
func (o Options) takeAll(_ *Client, w http.ResponseWriter, r *http.Request) (any, error) {
	return o.takeCommands(w, r, func(commands.Command) error { return nil })
}

// takeCommands accepts the commands for which check returns nil.
func (o Options) takeCommands(w http.ResponseWriter, r *http.Request, check func(commands.Command) error) (any, error) {
	acceptor, err := o.acceptor()
	if err != nil {
		return nil, err
	}
	if sent := r.Header.Get("Content-Type"); sent != "" {
		media, _, err := mime.ParseMediaType(sent)
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			return nil, newProblem(http.StatusUnsupportedMediaType, "send the command as application/json")
		}
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return nil, newProblem(http.StatusBadRequest, fmt.Sprintf("the Idempotency-Key is longer than %d bytes", maxKey))
	}
	body, err := readBody(w, r, maxRequest)
	if err != nil {
		return nil, err
	}
	all, several, err := commands.Parse(body)
	for i, c := range all {
		if err = check(c); err != nil {
			if wrong, ok := errors.AsType[*commands.FieldError](err); ok {
				wrong.Index = i
			}
			break
		}
	}
	if err != nil {
		acceptor.Count(commands.ReceivedRefused)
		return nil, commandProblem(err, several && len(all) > 0)
	}
	if key != "" {
		key = "http/" + key
	}
	answer, err := accept(r.Context(), acceptor, key, all, w.Header())
	if err != nil {
		return nil, commandProblem(err, several)
	}
	return answer, nil
}

// takeWebhook accepts the command in a ticket system's webhook. The sender is
// authenticated by the token or, if bySecret passed the request on, by the webhook's
// secret, which is verified here.
func (o Options) takeWebhook(_ *Client, w http.ResponseWriter, r *http.Request) (any, error) {
	acceptor, err := o.acceptor()
	if err != nil {
		return nil, err
	}
	receiver, body, err := o.verifyWebhook(w, r)
	if err != nil {
		return nil, err
	}
	notice, err := receiver.Read(r.Header, body)
	switch {
	case err != nil:
		acceptor.Count(commands.ReceivedRefused)
		return nil, commandProblem(err, false)
	case notice.Ignored != "":
		acceptor.Count(commands.ReceivedIgnored)
		return accepted{Commands: []acceptedCommand{}, Ignored: notice.Ignored}, nil
	}
	key := notice.Key
	if key != "" {
		key = r.PathValue("id") + "/" + key
	}
	answer, err := accept(r.Context(), acceptor, key, []commands.Command{notice.Command}, w.Header())
	if err != nil {
		return nil, commandProblem(err, false)
	}
	return answer, nil
}

// verifyWebhook reads the body of a webhook, and verifies the secret of its sender if the ticket
// system has one.
func (o Options) verifyWebhook(w http.ResponseWriter, r *http.Request) (*webhookintake.Receiver, []byte, error) {
	name, known := r.PathValue("id"), o.Tickets().Webhooks
	receiver := known[name]
	if receiver == nil {
		detail := fmt.Sprintf("tickets.webhooks has no %.80q", name)
		if len(known) > 0 {
			detail += ": it has " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
		}
		return nil, nil, newProblem(http.StatusNotFound, detail)
	}
	if !receiver.Verifies() && o.Token == "" && !o.ClientCertificates {
		return nil, nil, newProblem(http.StatusForbidden, "this webhook has no secret, and there is no admin.token: set one of them")
	}
	if receiver.Verifies() {
		if p := o.Guesses.throttled(r, name); p != nil {
			o.countUnverified()
			return nil, nil, p
		}
	}
	unverified := func(err error) error {
		o.countUnverified()
		o.Guesses.wrong(r, name)
		return refusal(http.StatusUnauthorized, err.Error())
	}
	if err := receiver.VerifyHeader(r.Header); errors.Is(err, webhookintake.ErrUnverified) {
		return nil, nil, unverified(err)
	}
	body, err := readBody(w, r, webhookintake.MaxBody)
	if err != nil {
		return nil, nil, err
	}
	switch err := receiver.Verify(r.Header, body); {
	case errors.Is(err, webhookintake.ErrUnverified):
		return nil, nil, unverified(err)
	case err != nil:
		// The caller is not authenticated and must not learn where secrets are stored.
		return nil, nil, newProblem(http.StatusServiceUnavailable, "the secret of this webhook cannot be read: ndrbridge check shows why")
	}
	return receiver, body, nil
}

// countUnverified counts a webhook whose sender is not authenticated, unless another member accepts
// ticket commands.
func (o Options) countUnverified() {
	if acceptor := o.Tickets().Acceptor; acceptor != nil {
		acceptor.Count(commands.ReceivedUnverified)
	}
}

// acceptor returns the Acceptor, or a problem if there is none.
func (o Options) acceptor() (Acceptor, error) {
	acceptor := o.Tickets().Acceptor
	if acceptor == nil {
		return nil, newProblem(http.StatusNotFound, "tickets.enabled is false: set it, and the bridge writes tickets to its appliances")
	}
	return acceptor, nil
}

// accept has the commands accepted in one transaction, under an idempotency key unless
// it is empty. It sets the Location of a single command in h.
func accept(ctx context.Context, acceptor Acceptor, key string, commands []commands.Command, h http.Header) (accepted, error) {
	var answer accepted
	acceptances, err := acceptor.Accept(ctx, key, commands)
	if err != nil {
		return answer, err
	}
	for _, c := range acceptances {
		answer.Commands = append(answer.Commands, acceptedCommand{c.ID, c.Duplicate, "/api/v1/tickets/" + strconv.FormatUint(c.ID, 10)})
	}
	if len(answer.Commands) == 1 {
		h.Set("Location", answer.Commands[0].Location)
	}
	return answer, nil
}

// commandProblem returns a problem with the reason why nothing was stored. If several is
// true, it names the field of a list's item with the item's index.
func commandProblem(err error, several bool) *problem {
	var wrong *commands.FieldError
	var syntax *commands.SyntaxError
	// Other errors are temporary: ticket systems retry on a 503.
	p := newProblem(http.StatusServiceUnavailable, err.Error())
	switch {
	case errors.As(err, &wrong):
		p = newProblem(http.StatusUnprocessableEntity, wrong.Error())
		p.Field, p.Allowed = wrong.Field, wrong.Allowed
		if several {
			at := fmt.Sprintf("[%d]", wrong.Index)
			p.Detail = at + " " + p.Detail
			p.Field = strings.TrimSuffix(at+"."+wrong.Field, ".")
		}
	case errors.As(err, &syntax):
		p = newProblem(http.StatusBadRequest, syntax.Error())
		p.Field = syntax.Field
	case errors.Is(err, webhookintake.ErrSyntax):
		p = newProblem(http.StatusBadRequest, err.Error())
	case errors.Is(err, checkpoint.ErrCommandsFull):
		p = newProblem(http.StatusServiceUnavailable, err.Error()+": ndrbridge tickets list --status pending shows them")
		p.retryAfter = "60"
	}
	return p
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
