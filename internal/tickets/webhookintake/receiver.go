// Package webhookintake reads the webhooks that ticket systems send when a ticket changes:
// it verifies the sender and maps the body to a ticket command. It has mappings for
// Jira's bodies and for the usual bodies of ServiceNow's REST messages; users define
// the mappings of other systems.
package webhookintake

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/tickets"
)

// MaxBody is the maximum size of a body, in bytes.
const MaxBody = 1 << 20

// Options configure a Receiver.
type Options struct {
	// Verify verifies that a request comes from the ticket system; nil if something
	// else does.
	Verify *Verification
	// Accounts are the bridge's own accounts at the ticket system, as values of
	// Mapping.Actor. Changes that they made are ignored: the bridge made them.
	Accounts []string
	Mapping  Mapping
}

// Receiver reads the requests of one ticket system. It is safe for concurrent use.
type Receiver struct{ o Options }

// New returns a Receiver. It returns an error if the mapping is invalid.
func New(o Options) (*Receiver, error) {
	if err := o.Mapping.check(); err != nil {
		return nil, err
	}
	o.Mapping.Statuses, o.Mapping.Resolutions = merged(nil, o.Mapping.Statuses), merged(nil, o.Mapping.Resolutions)
	return &Receiver{o}, nil
}

// Verifies reports whether requests are verified.
func (r *Receiver) Verifies() bool { return r.o.Verify != nil }

// VerifyHeader returns ErrUnverified if the header alone proves that the ticket system
// did not send the request. If it returns nil, Verify must still be called with the
// body.
func (r *Receiver) VerifyHeader(header http.Header) error {
	switch {
	case r.o.Verify == nil:
		return nil
	case r.o.Verify.Method != MethodSignature:
		return r.o.Verify.check(header, nil)
	case len(header.Get(r.o.Verify.Header)) != len("sha256=")+2*sha256.Size:
		return r.o.Verify.unsigned()
	}
	return nil
}

// Verify returns ErrUnverified if the ticket system did not send the request, and
// another error if that cannot be determined now.
func (r *Receiver) Verify(header http.Header, body []byte) error {
	if r.o.Verify == nil {
		return nil
	}
	return r.o.Verify.check(header, body)
}

// Notice is the content of a ticket system's request.
type Notice struct {
	// Key identifies the request, so that a repeated one is recognized; it is empty if
	// the request has no identity. The key of a signed request is derived from the
	// body, because only the body is signed.
	Key     string
	Command tickets.Command
	// Ignored is the reason why there is nothing to do. If it is empty, Command is to
	// be carried out.
	Ignored string
}

// ErrSyntax means that a body is not valid JSON. It is always wrapped.
var ErrSyntax = errors.New("the body is not valid JSON")

// Read maps a request to a command, which it does not check. It returns a
// *tickets.FieldError that names the field that cannot be mapped and the valid values,
// or else ErrSyntax.
func (r *Receiver) Read(header http.Header, body []byte) (Notice, error) {
	root, err := decode(body)
	if err != nil {
		return Notice{}, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	m := &r.o.Mapping
	if event, ok, err := textAt(root, m.Event); err != nil {
		return Notice{}, err
	} else if ok && len(m.Events) > 0 && !slices.Contains(m.Events, event) {
		return Notice{Ignored: fmt.Sprintf("the event %.80q is not one of the accepted events", event)}, nil
	}
	for _, p := range m.Actor {
		actor, ok, err := textAt(root, p)
		if err != nil {
			return Notice{}, err
		}
		if ok && slices.Contains(r.o.Accounts, actor) {
			return Notice{Ignored: "it was made by the bridge's own account"}, nil
		}
	}
	command, err := m.command(root)
	if err != nil {
		return Notice{}, err
	}
	if command.Status == "" && command.Assignee == nil && command.DetectionID == 0 {
		return Notice{Ignored: "it changes nothing that the appliance stores"}, nil
	}
	key, err := r.key(header, body, root)
	return Notice{Key: key, Command: command}, err
}

// key returns the key of a request. A signature covers only the body: anyone who has
// recorded a signed request can replay it with other headers, so its key is a digest of
// the body.
func (r *Receiver) key(header http.Header, body []byte, root any) (string, error) {
	if r.o.Verify != nil && r.o.Verify.Method == MethodSignature {
		sum := sha256.Sum256(body)
		return hex.EncodeToString(sum[:]), nil
	}
	return r.o.Mapping.requestKey(header, root)
}

// decode reads one JSON value as strictly as tickets.Parse: readers of a body with duplicate
// names or invalid Unicode disagree on its content. Numbers are not converted.
func decode(body []byte) (root any, err error) {
	err = json.Unmarshal(body, &root, json.WithUnmarshalers(json.UnmarshalFromFunc(decodeNumber)))
	return root, err
}

// number is a JSON number as it was sent.
type number string

func decodeNumber(d *jsontext.Decoder, to *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported // which is decoded as usual
	}
	text, err := d.ReadValue()
	*to = number(text)
	return err
}

// command returns the command for the changes in a body.
func (m *Mapping) command(root any) (tickets.Command, error) {
	var c tickets.Command
	changed, err := m.changed(root)
	if err != nil {
		return c, err
	}
	if c.TicketID, _, err = textAt(root, m.TicketID); err != nil {
		return c, err
	}
	if c.TicketID == "" {
		return c, &tickets.FieldError{Field: m.TicketID, Problem: "is missing"}
	}
	if c.Appliance, _, err = textAt(root, m.Appliance); err != nil {
		return c, err
	}
	if c.DetectionID, err = m.detection(root); err != nil {
		return c, err
	}
	if changed("status") || changed("resolution") {
		if c.Status, err = lookup(m.Statuses, root, m.Status...); err != nil {
			return c, err
		}
	}
	if c.Status == "closed" {
		if c.Resolution, err = lookup(m.Resolutions, root, m.Resolution); err != nil {
			return c, err
		}
	}
	if changed("assignee") {
		assignee, _, err := textAt(root, m.Assignee)
		if err != nil {
			return c, err
		}
		if _, found := find(root, m.Assignee); found { // null unassigns
			c.Assignee = &assignee
		}
	}
	return c, nil
}

// detection returns the detection id, or 0 if there is none.
func (m *Mapping) detection(root any) (int64, error) {
	text, found, err := textAt(root, m.DetectionID)
	if err != nil || !found || text == "" {
		return 0, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, &tickets.FieldError{Field: m.DetectionID, Problem: fmt.Sprintf("%.80q is not a detection id: write a number above 0", text)}
	}
	return id, nil
}

// changed returns a predicate that reports whether a field (status, resolution or
// assignee) was changed. If the body has no list of changes, it is true for all.
func (m *Mapping) changed(root any) (func(field string) bool, error) {
	all := func(string) bool { return true }
	value, found := find(root, m.Changes)
	if !found || value == nil {
		return all, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, &tickets.FieldError{Field: m.Changes, Problem: "must be a list of objects with field"}
	}
	var names []string
	for _, item := range list {
		object, _ := item.(map[string]any)
		name, _ := object["field"].(string)
		names = append(names, strings.ToLower(name))
	}
	return func(field string) bool { return slices.Contains(names, field) }, nil
}

// requestKey returns the key of a request: the key header, or the values of the key
// paths if all are present, or else "".
func (m *Mapping) requestKey(header http.Header, root any) (string, error) {
	if m.KeyHeader != "" {
		if key := header.Get(m.KeyHeader); key != "" {
			return key, nil
		}
	}
	var parts []string
	for _, p := range m.Key {
		part, found, err := textAt(root, p)
		if err != nil {
			return "", err
		}
		if !found || part == "" {
			return "", nil
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "/"), nil
}
