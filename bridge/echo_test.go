package bridge_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// echo is a server that answers every request wrongly, and in the answer repeats
// what it was sent.
type echo struct {
	step atomic.Int64 // which answer is next
}

func startEcho(t *testing.T) (plain, secure string) {
	t.Helper()
	e := new(echo)
	start := func(start func(*httptest.Server)) string {
		s := httptest.NewUnstartedServer(e)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		start(s)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	return start((*httptest.Server).Start), start((*httptest.Server).StartTLS)
}

// reflections are the parts of a request that a server could repeat, in the forms in
// which it could.
func reflections(r *http.Request, body []byte) []string {
	values := []string{r.RequestURI, "http://" + r.Host + r.RequestURI}
	for _, name := range []string{"Authorization", "Proxy-Authorization"} {
		if _, credentials, ok := strings.Cut(r.Header.Get(name), "Basic "); ok {
			if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil {
				values = append(values, string(plain))
			}
		}
	}
	for name, all := range r.Header {
		for _, value := range all {
			values = append(values, name+": "+value, value)
		}
	}
	const excerpt = 200
	for begin := 0; begin < len(body) && begin < 3*excerpt; begin += excerpt {
		values = append(values, string(body[begin:min(len(body), begin+excerpt)]))
	}
	var object struct {
		Key string `json:"routing_key"`
	}
	_ = json.Unmarshal(body, &object) // of one preset alone
	values = append(values, object.Key)
	if form, err := url.ParseQuery(string(body)); err == nil {
		values = append(values, form.Get("client_secret"))
	}
	values = slices.DeleteFunc(values, func(value string) bool { return value == "" })
	slices.Sort(values)
	var all []string
	for _, value := range values {
		quoted, _ := json.Marshal(value)
		all = append(all, value, url.QueryEscape(value), url.PathEscape(value), string(quoted),
			html.EscapeString(value), strconv.Quote(value), base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)))
	}
	return all
}

var echoStatuses = []int{200, 204, 301, 302, 307, 400, 401, 402, 403, 404, 405, 407, 408, 409, 410, 413, 415, 422, 429, 431, 500, 501, 502, 503, 504, 511, 599}

// rawAnswers are answers that break HTTP; %s is a reflection.
var rawAnswers = []string{
	"%s\r\n\r\n",
	"HTTP/1.1 %s\r\n\r\n",
	"HTTP/1.1 200 OK\r\n%s\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n%s",
	"HTTP/1.1 400 %[1]s\r\nContent-Length: 100000\r\n\r\n%[1]s",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
	"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n%s",
	"",
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	step := int(e.step.Add(1))
	all := reflections(r, body)
	said := all[step%len(all)]
	kinds := len(echoStatuses) + len(rawAnswers)
	kind := step % kinds
	if kind >= len(echoStatuses) {
		answerRaw(w, rawAnswers[kind-len(echoStatuses)], said)
		return
	}
	header := w.Header()
	line := strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, said)
	for _, name := range []string{"Www-Authenticate", "Webhook-Allowed-Origin", "Webhook-Allowed-Rate", "X-Said", "Location"} {
		header.Set(name, line)
	}
	header.Set("Content-Type", "application/json")
	w.WriteHeader(echoStatuses[kind])
	switch step % 3 {
	case 0:
		_, _ = io.WriteString(w, said)
	case 1:
		_, _ = fmt.Fprintf(w, "<html><title>%s</title><body>%s</body></html>", said, said)
	default:
		type object map[string]any
		_ = json.NewEncoder(w).Encode(object{
			"ok": false, "error": said, "error_description": said, "message": said, "text": said, "code": 6, "status": said,
			"errors": []string{said}, "error_message": said, "access_token": 5,
			"items": []object{{"create": object{"status": 400, "error": object{"type": said, "reason": said}}}},
		})
	}
}

func answerRaw(w http.ResponseWriter, format, said string) {
	conn, out, err := http.NewResponseController(w).Hijack()
	if err != nil { // of HTTP/2
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer conn.Close()
	if format != "" {
		_, _ = fmt.Fprintf(out, format, said)
		_ = out.Flush()
	}
}

// echoNATS is a server that speaks as much of the protocol as it takes to be shown a
// login, and repeats it.
func echoNATS(t *testing.T) string {
	t.Helper()
	var turn atomic.Int64
	return serveTCP(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, `INFO {"server_id":"x","version":"2.11.0","proto":1,"max_payload":1048576,"headers":true,"auth_required":true,"nonce":"abcdefghijklmnop"}`+"\r\n")
		in := bufio.NewReader(conn)
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		values := []string{strings.TrimSpace(line)}
		var login map[string]any
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "CONNECT ")), &login); err == nil {
			for _, key := range []string{"user", "pass", "auth_token", "jwt", "sig"} {
				if text, ok := login[key].(string); ok {
					quoted, _ := json.Marshal(text)
					values = append(values, text, url.QueryEscape(text), base64.StdEncoding.EncodeToString([]byte(text)), string(quoted))
				}
			}
		}
		n := int(turn.Add(1))
		said := values[n%len(values)]
		format := []string{"-ERR '%s'\r\n", "-ERR 'Authorization Violation %s'\r\n", "%s\r\n", "INFO %s\r\n"}[n/len(values)%4]
		_, _ = fmt.Fprintf(conn, format, said)
	})
}

// echoBytes is a server that sends back what it receives.
func echoBytes(t *testing.T) string {
	t.Helper()
	return serveTCP(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
}

// serveTCP has each connection served, for a moment at most.
func serveTCP(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}
