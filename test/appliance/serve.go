package appliance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ndrbridge/test/appliance/access"
	"ndrbridge/test/appliance/rest"
)

// ServeHTTP implements http.Handler.
func (a *Appliance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found := a.find(r)
	a.count(found.name)
	a.control.SetCORS(w.Header(), r)
	if hook := a.onRequest.Load(); hook != nil {
		(*hook)(r)
	}
	if a.unreachable(w) {
		return
	}
	f := a.behaviours.draw(r)
	if !wait(r.Context(), f.wait) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	if f.reset {
		reset(w)
	}
	ans := a.answer(found, f, r)
	if f.lost {
		reset(w)
	}
	a.send(w, f, ans)
}

func (a *Appliance) count(name string) {
	a.requests.Lock()
	defer a.requests.Unlock()
	a.requests.counts[name]++
}

// wait waits for d. It returns false if ctx is done first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// reset resets the connection. It does not return.
func reset(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		raw := conn
		if secure, ok := conn.(*tls.Conn); ok {
			raw = secure.NetConn()
		}
		if tcp, ok := raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // if this fails, the connection is closed normally
		}
		_ = raw.Close() // the connection is discarded
	}
	panic(http.ErrAbortHandler)
}

// answer returns the response to a routed request.
func (a *Appliance) answer(found match, f behaviour, r *http.Request) rest.Answer {
	switch {
	case f.tooManyRequests:
		return a.later(rest.Refuse(http.StatusTooManyRequests, "too many requests"), f)
	case f.serverError == http.StatusServiceUnavailable:
		return a.later(rest.Refuse(f.serverError, "the service is starting"), f)
	case f.serverError != 0:
		return rest.Refuse(f.serverError, "internal error")
	case f.html:
		return rest.Answer{Status: http.StatusOK, ContentType: rest.TypeHTML, Parts: [][]byte{[]byte(loginPage)}}
	case f.Refusal != Accepted && !found.open:
		return f.Refusal.answer()
	}
	var caller rest.Caller
	if !found.open {
		var ok bool
		if caller, ok = a.authenticate(r); !ok {
			return rest.Refuse(http.StatusUnauthorized, "Invalid API key")
		}
	}
	switch {
	case found.token:
		return a.issueToken(r)
	case found.serve == nil:
		return found.refused
	}
	if refused, ok := access.Check(found.operation, a.seeing(found.operation, caller)); !ok {
		return refused
	}
	made := &request{Request: &rest.Request{
		Request: r, Operation: found.operation, Parameters: found.parameters, Caller: caller, Now: a.millis(),
	}, behaviour: f}
	if refused, ok := made.check(); !ok {
		a.keepRefused(made, refused.Status)
		return refused
	}
	ans := f.Upgrade.of(found.operation.Name, found.serve(made))
	if found.operation.Changes && (ans.Status < http.StatusBadRequest || ans.Audit != nil) {
		a.logChange(made, ans.Audit)
	}
	return ans
}

// maxBody is the size of the largest body that the appliance reads, in bytes.
const maxBody = 4 << 20

// check reads the body and checks it and the parameters. It returns the refusal if something
// does not fit the description.
func (r *request) check() (refused rest.Answer, ok bool) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err == nil {
		err = r.Operation.CheckQuery(query)
	}
	if err != nil {
		return rest.BadRequest(err), false
	}
	accepted := r.Operation.MediaTypes()
	if len(accepted) == 0 {
		return rest.Answer{}, true
	}
	if r.Data, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1)); err != nil {
		return rest.BadRequest(fmt.Errorf("read the body: %w", err)), false
	}
	if len(r.Data) > maxBody {
		return rest.Refuse(http.StatusRequestEntityTooLarge, "the body must have at most %d bytes", maxBody), false
	}
	if len(r.Data) == 0 && !r.Operation.NeedsBody() {
		return rest.Answer{}, true
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if !slices.Contains(accepted, kind) {
		return rest.Refuse(http.StatusUnsupportedMediaType, "the body must be %s", strings.Join(accepted, " or ")), false
	}
	var value any = string(r.Data)
	if kind == rest.TypeJSON {
		if nesting(r.Data) > maxNesting {
			return rest.BadRequest(fmt.Errorf("the body is nested more than %d deep", maxNesting)), false
		}
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(r.Data)); err != nil {
			return rest.BadRequest(errors.New("the body is not JSON")), false
		}
	}
	if err := r.Operation.CheckBody(kind, value); err != nil {
		return rest.BadRequest(err), false
	}
	if kind == rest.TypeJSON {
		var modified bool
		if r.Value, modified = rest.Integers(value); modified {
			if r.Data, err = rest.Encode(r.Value); err != nil {
				return rest.BadRequest(err), false
			}
		}
	}
	return rest.Answer{}, true
}

// maxNesting is how deep the objects and arrays of a body may be nested. Checking a body against
// the description takes time in proportion to the square of it.
const maxNesting = 100

// nesting returns how deep the objects and arrays of a JSON text are nested.
func nesting(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

const loginPage = `<!DOCTYPE html>
<html><head><title>Sign in</title></head>
<body><form method="post" action="/login"><input name="user"><input name="password" type="password"></form></body></html>
`

// later adds a Retry-After.
func (a *Appliance) later(ans rest.Answer, f behaviour) rest.Answer {
	if f.RetryAfter <= 0 {
		return ans
	}
	seconds := int64((f.RetryAfter + time.Second - 1) / time.Second)
	value := strconv.FormatInt(seconds, 10)
	if f.RetryAfterDate {
		value = a.Clock().Add(time.Duration(seconds) * time.Second).UTC().Format(http.TimeFormat)
	}
	ans.Header = http.Header{"Retry-After": {value}}
	return ans
}

// send writes an answer, or the part of it that the request's hazards permit.
func (a *Appliance) send(w http.ResponseWriter, f behaviour, ans rest.Answer) {
	h := w.Header()
	for name, values := range ans.Header {
		h[name] = values
	}
	switch {
	case f.NoDate:
		h["Date"] = nil // keeps the server from setting its own
	case f.Date != "":
		h.Set("Date", f.Date)
	default:
		date := a.Clock()
		if f.dateOff == sinceEver {
			date = time.Unix(0, 0)
		} else {
			date = date.Add(f.dateOff)
		}
		h.Set("Date", date.UTC().Format(http.TimeFormat))
	}
	if ans.ContentType != "" {
		h.Set("Content-Type", ans.ContentType)
	}
	size := ans.Size()
	send := size
	if size > 0 && (f.cutBody || f.cutJSON && strings.Contains(ans.ContentType, "json")) {
		send = int(f.cutAt * float64(size)) // less than all of it
	}
	if ans.Status != http.StatusNoContent {
		announced := size
		if f.cutJSON && !f.cutBody {
			announced = send
		}
		h.Set("Content-Length", strconv.Itoa(announced))
	}
	w.WriteHeader(ans.Status)
	writeParts(w, ans.Parts, send)
	if f.cutBody {
		// Otherwise the written part might not be sent.
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// writeParts writes the first n bytes. It ignores errors, which mean that the client is
// gone.
func writeParts(w io.Writer, parts [][]byte, n int) {
	const buffer = 64 << 10
	b := bufio.NewWriterSize(w, min(n, buffer))
	for _, part := range parts {
		part = part[:min(n, len(part))]
		if n -= len(part); len(part) == 0 {
			break
		}
		if _, err := b.Write(part); err != nil {
			return
		}
	}
	_ = b.Flush()
}
