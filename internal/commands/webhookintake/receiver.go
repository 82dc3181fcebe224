// Package webhookintake reads the webhooks that ticket systems send when a ticket changes:
// it verifies the sender and maps the body to a ticket command. It has mappings for
// Jira's bodies and for the usual bodies of ServiceNow's REST messages; users define
// the mappings of other systems.
package webhookintake

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/commands"
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
	Command commands.Command
	// Ignored is the reason why there is nothing to do. If it is empty, Command is to
	// be carried out.
	Ignored string
}

// ErrSyntax means that a body is not valid JSON. It is always wrapped.
var ErrSyntax = errors.New("the body is not valid JSON")

// Read maps a request to a command, which it does not check. It returns a
// *commands.FieldError that names the field that cannot be mapped and the valid values,
// or else ErrSyntax.
func (r *Receiver) Read(header http.Header, body []byte) (Notice, error) {
	root, err := decode(body)
	if err != nil {
		return Notice{}, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	v := &values{root: root}
	n := r.read(v, header, body)
	if v.err != nil {
		return Notice{}, v.err
	}
	return n, nil
}

// read is Read without the error, which v keeps.
func (r *Receiver) read(v *values, header http.Header, body []byte) Notice {
	m := &r.o.Mapping
	event, ok := v.text(m.Event)
	if ok && len(m.Events) > 0 && !slices.Contains(m.Events, event) {
		return Notice{Ignored: fmt.Sprintf("the event %.80q is not one of the accepted events", event)}
	}
	for _, p := range m.Actor {
		if actor, ok := v.text(p); ok && slices.Contains(r.o.Accounts, actor) {
			return Notice{Ignored: "it was made by the bridge's own account"}
		}
	}
	command := m.command(v)
	if command.Status == "" && command.Assignee == nil && command.DetectionID == 0 {
		return Notice{Ignored: "it changes nothing that the appliance stores"}
	}
	return Notice{Key: r.key(v, header, body), Command: command}
}

// decode reads one JSON value as strictly as commands.Parse: readers of a body with duplicate
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
func (m *Mapping) command(v *values) (c commands.Command) {
	changed := m.changed(v)
	c.TicketID, _ = v.text(m.TicketID)
	if c.TicketID == "" {
		v.fail(&commands.FieldError{Field: m.TicketID, Problem: "is missing"})
	}
	c.Appliance, _ = v.text(m.Appliance)
	c.DetectionID = m.detection(v)
	if changed("status") || changed("resolution") {
		c.Status = v.lookup(m.Statuses, m.Status...)
	}
	if c.Status == "closed" {
		c.Resolution = v.lookup(m.Resolutions, m.Resolution)
	}
	if changed("assignee") {
		assignee, _ := v.text(m.Assignee)
		if _, found := v.at(m.Assignee); found { // null unassigns
			c.Assignee = &assignee
		}
	}
	return c
}

// detection returns the detection id, or 0 if there is none.
func (m *Mapping) detection(v *values) int64 {
	text, _ := v.text(m.DetectionID)
	if text == "" {
		return 0
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		v.fail(&commands.FieldError{Field: m.DetectionID, Problem: fmt.Sprintf("%.80q is not a detection id: write a number above 0", text)})
	}
	return id
}

// changed returns a predicate that reports whether a field (status, resolution or
// assignee) was changed. If the body has no list of changes, it is true for all.
func (m *Mapping) changed(v *values) func(field string) bool {
	value, _ := v.at(m.Changes)
	if value == nil {
		return func(string) bool { return true }
	}
	list, ok := value.([]any)
	if !ok {
		v.fail(&commands.FieldError{Field: m.Changes, Problem: "must be a list of objects with field"})
	}
	var names []string
	for _, item := range list {
		object, _ := item.(map[string]any)
		name, _ := object["field"].(string)
		names = append(names, strings.ToLower(name))
	}
	return func(field string) bool { return slices.Contains(names, field) }
}

// key returns the key of a request: the key header, or the values of the key paths if all are
// present, or else "". A signature covers only the body: anyone who has recorded a signed request
// can replay it with other headers, so its key is a digest of the body.
func (r *Receiver) key(v *values, header http.Header, body []byte) string {
	if r.o.Verify != nil && r.o.Verify.Method == MethodSignature {
		sum := sha256.Sum256(body)
		return hex.EncodeToString(sum[:])
	}
	m := &r.o.Mapping
	if m.KeyHeader != "" {
		if key := header.Get(m.KeyHeader); key != "" {
			return key
		}
	}
	var parts []string
	for _, p := range m.Key {
		part, _ := v.text(p)
		if part == "" {
			return ""
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "/")
}

// Method is how a ticket system authenticates.
type Method string

// The methods.
const (
	// MethodSignature is an HMAC-SHA256 of the body with the secret, written as
	// sha256=<hexadecimal> like in WebSub and Jira.
	MethodSignature Method = "signature"
	// MethodHeader is the secret in a header.
	MethodHeader Method = "header"
	// MethodBasic is a user name and a password (RFC 7617).
	MethodBasic Method = "basic"
)

// Verification describes how requests are verified.
type Verification struct {
	Method Method
	// Header is the name of the header with the signature or the secret.
	Header string
	// Username is the user name of MethodBasic. The password is the secret.
	Username string
	// Secret returns the secret. It is called for each request, so that the secret can
	// be changed.
	Secret func() (string, error)
}

// ErrUnverified means that a request is not authenticated. It is always wrapped, with
// the requirement and without secrets.
var ErrUnverified = errors.New("the sender is not verified")

func (v *Verification) check(header http.Header, body []byte) error {
	secret, err := v.Secret()
	if err != nil {
		return fmt.Errorf("read the secret of the webhook: %w", err)
	}
	if secret == "" {
		return errors.New("the secret of the webhook is empty")
	}
	switch v.Method {
	case MethodSignature:
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		if !equal(strings.ToLower(header.Get(v.Header)), "sha256="+hex.EncodeToString(mac.Sum(nil))) {
			return v.unsigned()
		}
	case MethodBasic:
		scheme, credentials, _ := strings.Cut(header.Get("Authorization"), " ")
		want := base64.StdEncoding.EncodeToString([]byte(v.Username + ":" + secret))
		if !strings.EqualFold(scheme, "Basic") || !equal(strings.TrimLeft(credentials, " "), want) {
			return fmt.Errorf("%w: send the webhook's user name and password as Authorization: Basic", ErrUnverified)
		}
	default:
		if !equal(header.Get(v.Header), secret) {
			return fmt.Errorf("%w: %s must hold the webhook's secret", ErrUnverified, v.Header)
		}
	}
	return nil
}

func (v *Verification) unsigned() error {
	return fmt.Errorf("%w: %s must hold sha256= and the HMAC-SHA256 of the body with the webhook's secret", ErrUnverified, v.Header)
}

// equal compares in constant time.
func equal(a, b string) bool {
	sumA, sumB := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(sumA[:], sumB[:]) == 1
}
