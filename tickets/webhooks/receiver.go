// Package webhooks reads what ticket systems send when a ticket changes: it
// verifies who sent it, and maps it to a ticket command by a table. Jira's own
// bodies are known, and those that ServiceNow's REST messages usually hold; the
// table of any other system is the user's.
package webhooks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/tickets"
)

// MaxBody is how large a body a ticket system may send, in bytes.
const MaxBody = 1 << 20

// Options say what a Receiver takes.
type Options struct {
	// Verify finds out whether a request comes from the ticket system; nil: it is
	// not this Receiver's to know.
	Verify *Verification
	// Accounts are the bridge's own accounts at the ticket system, by any of the
	// values of Mapping.Actor. What they did is ignored: the bridge did it.
	Accounts []string
	Mapping  Mapping
}

// Receiver reads the requests of one ticket system. It is safe for concurrent use.
type Receiver struct {
	verify   *Verification
	accounts []string
	mapping  compiled
}

// New returns a Receiver. The error says which part of the mapping is wrong.
func New(o Options) (*Receiver, error) {
	mapping, err := o.Mapping.compile()
	if err != nil {
		return nil, err
	}
	return &Receiver{verify: o.Verify, accounts: o.Accounts, mapping: mapping}, nil
}

// Verifies reports whether Verify refuses anybody.
func (r *Receiver) Verifies() bool { return r.verify != nil }

// VerifyHeader returns ErrUnverified where the header alone shows that a request was
// not sent by the ticket system, whatever its body is: Verify has the last word.
func (r *Receiver) VerifyHeader(header http.Header) error {
	switch {
	case r.verify == nil:
		return nil
	case r.verify.Method != MethodSignature:
		return r.verify.check(header, nil)
	case len(header.Get(r.verify.Header)) != len("sha256=")+2*sha256.Size:
		return r.verify.unsigned()
	}
	return nil
}

// Verify returns ErrUnverified where a request was not sent by the ticket system;
// another error where that cannot be found out now.
func (r *Receiver) Verify(header http.Header, body []byte) error {
	if r.verify == nil {
		return nil
	}
	return r.verify.check(header, body)
}

// Notice is what a request of a ticket system says.
type Notice struct {
	// Key names it, so that one that is sent again is known; empty: it has no name. Of
	// a request with a signature it follows from the body, which the signature covers.
	Key     string
	Command tickets.Command
	// Ignored says why there is nothing to be done; empty: there is, and Command
	// says what.
	Ignored string
}

// ErrSyntax says that a body is no JSON. It comes wrapped.
var ErrSyntax = errors.New("the body is no JSON")

// Read maps a request to a command, which is not checked. A *tickets.FieldError
// names the field of the body that cannot be mapped, and the values that can;
// otherwise the error is ErrSyntax.
func (r *Receiver) Read(header http.Header, body []byte) (Notice, error) {
	root, err := decode(body)
	if err != nil {
		return Notice{}, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	m := &r.mapping
	if event, ok, err := m.event.text(root); err != nil {
		return Notice{}, err
	} else if ok && len(m.events) > 0 && !slices.Contains(m.events, event) {
		return Notice{Ignored: fmt.Sprintf("the event %.80q is none of those that are taken", event)}, nil
	}
	for _, p := range m.actor {
		actor, ok, err := p.text(root)
		if err != nil {
			return Notice{}, err
		}
		if ok && slices.Contains(r.accounts, actor) {
			return Notice{Ignored: "it was done by the bridge's own account"}, nil
		}
	}
	command, err := m.command(root)
	if err != nil {
		return Notice{}, err
	}
	if command.Status == "" && command.Assignee == nil && command.DetectionID == 0 {
		return Notice{Ignored: "it changes nothing that the appliance keeps"}, nil
	}
	key, err := r.key(header, body, root)
	return Notice{Key: key, Command: command}, err
}

// key names a request. A signature covers the body alone: whoever has recorded a
// request can send it again with other headers, so that the body itself is the name.
func (r *Receiver) key(header http.Header, body []byte, root any) (string, error) {
	if r.verify != nil && r.verify.Method == MethodSignature {
		sum := sha256.Sum256(body)
		return hex.EncodeToString(sum[:]), nil
	}
	return r.mapping.name(header, root)
}

// decode reads one JSON value. Numbers stay as they are written.
func decode(body []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var root any
	if err := decoder.Decode(&root); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	return root, nil
}

// command makes a command of what changed.
func (m *compiled) command(root any) (tickets.Command, error) {
	var c tickets.Command
	changed, err := m.changed(root)
	if err != nil {
		return c, err
	}
	if c.TicketID, err = m.ticketID.want(root); err != nil {
		return c, err
	}
	if c.Appliance, _, err = m.appliance.text(root); err != nil {
		return c, err
	}
	if c.DetectionID, err = m.detection(root); err != nil {
		return c, err
	}
	if changed("status") || changed("resolution") {
		if c.Status, err = m.statuses.look(m.status, root); err != nil {
			return c, err
		}
	}
	if c.Status == "closed" {
		if c.Resolution, err = m.resolutions.look(m.resolution, root); err != nil {
			return c, err
		}
	}
	if changed("assignee") {
		assignee, found, err := m.assignee.text(root)
		if err != nil {
			return c, err
		}
		if found || m.assignee.isNull(root) {
			c.Assignee = &assignee
		}
	}
	return c, nil
}

// detection is the id of the detection; 0 where there is none.
func (m *compiled) detection(root any) (int64, error) {
	text, found, err := m.detectionID.text(root)
	if err != nil || !found || text == "" {
		return 0, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, &tickets.FieldError{Field: m.detectionID.String(), Problem: fmt.Sprintf("%.80q is no id of a detection: write a number above 0", text)}
	}
	return id, nil
}

// changed returns which of status, resolution and assignee a request tells to have
// changed: all of them where it does not tell.
func (m *compiled) changed(root any) (func(field string) bool, error) {
	all := func(string) bool { return true }
	value, found := m.changes.find(root)
	if !found || value == nil {
		return all, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, &tickets.FieldError{Field: m.changes.String(), Problem: "must be a list of objects with field"}
	}
	var names []string
	for _, item := range list {
		object, _ := item.(map[string]any)
		name, _ := object["field"].(string)
		names = append(names, strings.ToLower(name))
	}
	return func(field string) bool { return slices.Contains(names, field) }, nil
}

// name is the key of a request: that of the header, or of the body where all its
// parts are there.
func (m *compiled) name(header http.Header, root any) (string, error) {
	if m.keyHeader != "" {
		if key := header.Get(m.keyHeader); key != "" {
			return key, nil
		}
	}
	var parts []string
	for _, p := range m.key {
		part, found, err := p.text(root)
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
