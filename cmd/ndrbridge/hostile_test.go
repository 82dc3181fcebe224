package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// attack is how a hostile server answers. echo is all of the request, what signs it
// in at the beginning.
type attack struct {
	name   string
	answer func(w http.ResponseWriter, r *http.Request, echo string)
}

// hostile are HTTP servers that send every client what others sent them.
type hostile struct {
	t    *testing.T
	does atomic.Pointer[attack]

	mu    sync.Mutex
	asked map[string]int // requests to each server since the attack began
}

func (h *hostile) begin(m attack) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.does.Store(&m)
	clear(h.asked)
}

// idle are the servers that were asked less than twice since the attack began: when
// the second request arrives, the result of the first one has been printed.
func (h *hostile) idle(names []string) (few []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		if h.asked[name] < 2 {
			few = append(few, name)
		}
	}
	return few
}

// serve starts a server, and returns its address.
func (h *hostile) serve(name string) string {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		does := h.does.Load()
		h.mu.Lock()
		h.asked[name]++
		h.mu.Unlock()
		var echo strings.Builder
		for _, field := range []string{"Authorization", "Proxy-Authorization"} {
			fmt.Fprintf(&echo, "%s ", r.Header.Get(field))
			r.Header.Del(field)
		}
		fmt.Fprintf(&echo, "%s %v %s", r.RequestURI, r.Header, body)
		does.answer(w, r, echo.String())
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	h.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// forms are those in which a server may repeat what it was sent.
var forms = []struct {
	name, contentType string
	of                func(string) string
}{
	{"as it is", "text/plain", func(echo string) string { return echo }},
	{"in JSON", "application/json", inJSON},
	{"in HTML", "text/html", func(echo string) string { return "<html><title>" + html.EscapeString(echo) + "</title></html>" }},
	{"percent-encoded", "text/plain", url.QueryEscape},
	{"in quotes", "text/plain", strconv.Quote},
}

// inJSON is an error in the words of every service that there is a preset for.
func inJSON(echo string) string {
	failed := map[string]any{"index": 0, "status": 400, "error": map[string]any{"type": echo, "reason": echo}}
	text, _ := json.Marshal(map[string]any{ // texts and numbers cannot fail
		"ok": false, "error": echo, "error_message": echo, "error_description": echo, "message": echo, "text": echo, "detail": echo, "title": echo,
		"code": 5, "status": "invalid event", "warning": echo, "errors": []any{echo}, "items": []any{map[string]any{"create": failed}}, "needed": echo,
	})
	return string(text)
}

// attacks are answers of every status that is distinguished, and of none; under -short some of
// them.
func attacks() []attack {
	var all []attack
	for i, status := range []int{200, 202, 301, 400, 401, 403, 404, 407, 408, 413, 422, 429, 500, 503} {
		of := forms[i%len(forms) : i%len(forms)+1]
		if status == 200 || status == 400 || status == 500 {
			of = forms
		}
		for _, form := range of {
			all = append(all, attack{fmt.Sprintf("%d and the request %s", status, form.name), func(w http.ResponseWriter, r *http.Request, echo string) {
				w.Header().Set("Content-Type", form.contentType)
				w.Header().Set("Location", "https://ana:"+url.QueryEscape(echo[:min(len(echo), 200)])+"@elsewhere.example"+r.URL.RequestURI())
				w.Header().Set("WWW-Authenticate", "Basic realm="+strconv.Quote(echo))
				w.WriteHeader(status)
				fmt.Fprint(w, form.of(echo))
			}})
		}
	}
	raw := func(name string, answer func(c net.Conn, echo string)) {
		all = append(all, attack{name, func(w http.ResponseWriter, _ *http.Request, echo string) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			answer(c, echo)
		}})
	}
	raw("nothing, and the connection ends", func(net.Conn, string) {})
	raw("a reset", func(c net.Conn, _ string) { _ = c.(*net.TCPConn).SetLinger(0) })
	raw("bytes that are not HTTP", func(c net.Conn, echo string) { fmt.Fprintf(c, "no HTTP: %s\r\n\r\n", echo) })
	raw("an invalid status", func(c net.Conn, echo string) {
		fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\n", strings.Map(printableASCII, echo))
	})
	raw("an invalid header", func(c net.Conn, echo string) {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", strings.Map(printableASCII, echo))
	})
	raw("half a header", func(c net.Conn, echo string) { fmt.Fprintf(c, "HTTP/1.1 400 Bad\r\nX: %s", echo) })
	for _, status := range []int{200, 401, 500} {
		raw(fmt.Sprintf("%d and a body that ends in the middle of a secret", status), func(c net.Conn, echo string) {
			fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n", status)
			if before, _, found := strings.Cut(echo, marker); found {
				fmt.Fprint(c, before+marker)
			}
		})
	}
	all = append(all, attack{"nothing in time", func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }})
	if !testing.Short() {
		return all
	}
	var some []attack
	for i := 0; i < len(all); i += 5 {
		some = append(some, all[i])
	}
	return some
}

func printableASCII(r rune) rune {
	if r < ' ' || r > '~' {
		return '.'
	}
	return r
}

// hostileNATS is a server that repeats what signs a client in, each time in another
// error. It returns its address.
func hostileNATS(t *testing.T) string {
	t.Helper()
	var served atomic.Int64
	return loopback.Serve(t, func(c net.Conn) {
		fmt.Fprint(c, `INFO {"server_id":"x","version":"2.11.0","proto":1,"host":"127.0.0.1","port":4222,"headers":true,"max_payload":1048576,"nonce":"bm9uY2U"}`+"\r\n")
		lines := bufio.NewReader(c)
		connect, _ := lines.ReadString('\n')
		connect = strings.TrimSpace(connect)
		switch served.Add(1) % 7 {
		case 4, 5:
			refuseRequests(c, lines, connect)
		case 0:
			fmt.Fprintf(c, "-ERR 'Authorization Violation: %s'\r\n", connect)
		case 1:
			fmt.Fprintf(c, "-ERR '%s'\r\n", strconv.Quote(connect))
		case 2:
			fmt.Fprintf(c, "%s\r\n", connect)
		case 3:
			fmt.Fprintf(c, "-ERR 'User Authentication Expired'\r\n")
		}
	})
}

// refuseRequests accepts a client and repeats its credentials in the answer to each request.
func refuseRequests(c net.Conn, lines *bufio.Reader, connect string) {
	answer, _ := json.Marshal(map[string]any{"error": map[string]any{"code": 400, "err_code": 10052, "description": connect}}) // texts and numbers cannot fail
	sid := ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line + " .") // never none
		size := 0
		if len(words) > 3 {
			size, _ = strconv.Atoi(words[len(words)-2])
		}
		switch words[0] {
		case "PING":
			fmt.Fprint(c, "PONG\r\n")
		case "SUB":
			sid = words[len(words)-2]
		case "PUB", "HPUB":
			if _, err := io.CopyN(io.Discard, lines, int64(size)+2); err != nil {
				return
			}
			if !strings.HasPrefix(words[2], "_INBOX.") { // no answer is expected
				fmt.Fprintf(c, "-ERR 'Permissions Violation for Publish to %s'\r\n", strconv.Quote(connect))
				return
			}
			fmt.Fprintf(c, "MSG %s %s %d\r\n%s\r\n", words[2], sid, len(answer), answer)
		}
	}
}

// listenPlain returns a listener whose connections end when they begin with TLS, as those of a real
// broker. That of the tests would make room for the 352 MiB that a handshake begins with as a size.
func listenPlain(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return plainListener{l}, err
}

type plainListener struct{ net.Listener }

// Accept implements net.Listener.
func (l plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &plainConn{Conn: c}, err
}

type plainConn struct {
	net.Conn
	begun bool
}

// Read implements net.Conn.
func (c *plainConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	const handshake = 0x16
	if !c.begun && n > 0 && b[0] == handshake {
		return 0, io.EOF
	}
	c.begun = true
	return n, err
}

// hostileKafka is a broker that repeats what signed a client in, in every message. It returns
// its address.
func hostileKafka(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ndr.detections", "ndr.events", "ndr.tickets"), kfake.ListenFn(listenPlain))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	control := func(key kmsg.Key, answer func(kmsg.Request) kmsg.Response) {
		cluster.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			response := answer(r)
			return response, nil, response != nil
		})
	}
	control(kmsg.SASLHandshake, func(r kmsg.Request) kmsg.Response { return r.ResponseKind() })
	// Two sinks sign in with PLAIN and get further.
	codes, n, said := []int16{58, 31, -1, 7, 0, 0, 0, 0}, 0, make(map[string]*string) // by user
	control(kmsg.SASLAuthenticate, func(r kmsg.Request) kmsg.Response {
		n++
		response := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		response.ErrorCode = codes[n%len(codes)]
		sent := r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes
		response.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("you sent %s", sent))
		user, _, _ := strings.Cut(strings.TrimPrefix(string(sent), "\x00"), "\x00")
		said[user] = response.ErrorMessage
		return response
	})
	control(kmsg.CreateTopics, func(r kmsg.Request) kmsg.Response {
		response := r.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, asked := range r.(*kmsg.CreateTopicsRequest).Topics {
			topic := kmsg.NewCreateTopicsResponseTopic()
			topic.Topic, topic.ErrorCode, topic.ErrorMessage = asked.Topic, kerr.PolicyViolation.Code, said["creator"]
			response.Topics = append(response.Topics, topic)
		}
		return response
	})
	produced := 0
	control(kmsg.Produce, func(r kmsg.Request) kmsg.Response {
		if produced++; produced%3 > 0 {
			return nil // it is accepted: who rejects everything is at fault itself
		}
		response := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, asked := range r.(*kmsg.ProduceRequest).Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic = asked.Topic
			for _, of := range asked.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode, partition.ErrorMessage = of.Partition, kerr.InvalidRecord.Code, said["producer"]
				record := kmsg.NewProduceResponseTopicPartitionErrorRecord()
				record.ErrorMessage = said["producer"]
				partition.ErrorRecords = append(partition.ErrorRecords, record)
				topic.Partitions = append(topic.Partitions, partition)
			}
			response.Topics = append(response.Topics, topic)
		}
		return response
	})
	return cluster.ListenAddrs()[0]
}
