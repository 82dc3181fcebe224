package appliance

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP implements http.Handler.
func (a *Appliance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found := a.find(r)
	a.count(found.name)
	if hook := a.onRequest.Load(); hook != nil {
		(*hook)(r)
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
func (a *Appliance) answer(found match, f behaviour, r *http.Request) answer {
	switch {
	case f.tooManyRequests:
		return a.later(refusal(http.StatusTooManyRequests, "too many requests"), f)
	case f.serverError == http.StatusServiceUnavailable:
		return a.later(refusal(f.serverError, "the service is starting"), f)
	case f.serverError != 0:
		return refusal(f.serverError, "internal error")
	case f.html:
		return answer{status: http.StatusOK, contentType: typeHTML, parts: [][]byte{[]byte(loginPage)}}
	case f.Refusal != Accepted && !found.open:
		return f.Refusal.answer()
	}
	if !found.open && !a.authorized(r) {
		return refusal(http.StatusUnauthorized, "Invalid API key")
	}
	if found.serve == nil {
		return found.refused
	}
	if wanted := found.body; wanted != "" {
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != wanted {
			return refusal(http.StatusUnsupportedMediaType, "the body must be %s", wanted)
		}
	}
	return found.serve(&request{Request: r, behaviour: f, id: found.id})
}

const loginPage = `<!DOCTYPE html>
<html><head><title>Sign in</title></head>
<body><form method="post" action="/login"><input name="user"><input name="password" type="password"></form></body></html>
`

// later adds a Retry-After.
func (a *Appliance) later(ans answer, f behaviour) answer {
	if f.RetryAfter <= 0 {
		return ans
	}
	seconds := int64((f.RetryAfter + time.Second - 1) / time.Second)
	value := strconv.FormatInt(seconds, 10)
	if f.RetryAfterDate {
		value = a.Clock().Add(time.Duration(seconds) * time.Second).UTC().Format(http.TimeFormat)
	}
	ans.header = http.Header{"Retry-After": {value}}
	return ans
}

// send writes an answer, or the part of it that the request's hazards permit.
func (a *Appliance) send(w http.ResponseWriter, f behaviour, ans answer) {
	h := w.Header()
	for name, values := range ans.header {
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
	if ans.contentType != "" {
		h.Set("Content-Type", ans.contentType)
	}
	size := ans.size()
	send := size
	if size > 0 && (f.cutBody || f.cutJSON && strings.Contains(ans.contentType, "json")) {
		send = int(f.cutAt * float64(size)) // less than all of it
	}
	if ans.status != http.StatusNoContent {
		announced := size
		if f.cutJSON && !f.cutBody {
			announced = send
		}
		h.Set("Content-Length", strconv.Itoa(announced))
	}
	w.WriteHeader(ans.status)
	writeParts(w, ans.parts, send)
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
