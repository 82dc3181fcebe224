// Package hostile implements peers that attack: they violate their protocol, announce more
// than they send, or never respond. Tests run them against the programs and packages that
// must withstand them.
package hostile

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Appliance is a network detection appliance that attacks its clients.
type Appliance struct {
	honest  http.Handler
	attack  atomic.Pointer[applianceAttack]
	reached atomic.Int64
}

// applianceAttack is an attack in place of a response.
type applianceAttack struct {
	name     string
	concerns func(path string) bool // other requests are answered honestly
	serve    http.HandlerFunc
}

// NewAppliance returns an appliance that serves requests with honest, without TLS, until
// Attack is called.
func NewAppliance(honest http.Handler) *Appliance { return &Appliance{honest: honest} }

// ApplianceAttacks returns the names of all attacks of appliances.
func ApplianceAttacks() []string {
	var names []string
	for _, a := range applianceAttacks() {
		names = append(names, a.name)
	}
	return names
}

// Attack replaces the current attack with one of ApplianceAttacks; an empty name ends it. It
// resets Reached.
func (a *Appliance) Attack(name string) {
	a.reached.Store(0)
	if name == "" {
		a.attack.Store(nil)
		return
	}
	for _, attack := range applianceAttacks() {
		if attack.name == name {
			a.attack.Store(&attack)
			return
		}
	}
	panic("hostile: unknown attack " + name)
}

// Reached returns the number of requests attacked.
func (a *Appliance) Reached() int { return int(a.reached.Load()) }

// ServeHTTP implements http.Handler.
func (a *Appliance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if attack := a.attack.Load(); attack != nil && attack.concerns(r.URL.Path) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.Header().Set("Content-Type", "application/json")
		attack.serve(w, r)
		a.reached.Add(1)
		return
	}
	a.honest.ServeHTTP(w, r)
}

// largeAnswer is slightly less than the limit of a reader that accepts 16 MiB.
const largeAnswer = 16<<20 - 64<<10

// applianceAttacks returns the attacks. Each is safe for concurrent use.
func applianceAttacks() []applianceAttack {
	return []applianceAttack{
		{"16 MiB of empty objects in 16 KB of gzip", isList, list(repeated("{},", largeAnswer, "{}"))},
		{"16 MiB of numbers in place of objects", isList, list(repeated("1,", largeAnswer, "1"))},
		{"an object of millions of members", isList, list(repeated(`"a":1,`, largeAnswer, `"a":1}`).behind("{"))},
		{"arrays that are nested a million times", isList, list(repeated("[", 8<<20, strings.Repeat("]", 8<<20-1<<10)).behind(`{"a":`))},
		{"numbers of a million digits", isList, list(repeated("9", 1<<20, `}`).behind(`{"id":1,"mod_time":1,"_id":"a","time":`))},
		{"ids of a million digits", isList, list(repeated("9", 1<<20, `}`).behind(`{"id":`))},
		{"a body that does not end", isAny, func(w http.ResponseWriter, r *http.Request) {
			head, _ := around(r)
			io.WriteString(w, head)
			endlessly(w, []byte(`{"id":1,"mod_time":1},`))
		}},
		{"white space that does not end", isAny, func(w http.ResponseWriter, r *http.Request) { endlessly(w, []byte(" ")) }},
		{"gzip that does not end", isAny, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			head, _ := around(r)
			w.Write(zipped(head))
			endlessly(w, zipped(strings.Repeat(`{"id":1,"mod_time":1},`, 10_000)))
		}},
		{"a body of a byte now and then", isAny, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, " "); err != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}},
		{"headers of 8 MB", isAny, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 8<<20))
		}},
		{"a million headers", isAny, func(w http.ResponseWriter, r *http.Request) {
			c, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			io.WriteString(buffered, "HTTP/1.1 200 OK\r\n")
			for i := range 1_000_000 {
				if _, err := fmt.Fprintf(buffered, "X-%d: x\r\n", i); err != nil {
					return
				}
			}
			_ = buffered.Flush() // the client may be gone
		}},
		{"errors whose text does not end", isAny, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endlessly(w, []byte("it failed. "))
		}},
		{"redirects to an address of 8 MB", isAny, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/"+strings.Repeat("x", 8<<20))
			w.WriteHeader(http.StatusFound)
		}},
		{"a version of millions of numbers", at("/version"), func(w http.ResponseWriter, r *http.Request) {
			repeated(".1", largeAnswer, `"}`).behind(`{"version":"1`).writeTo(w, "", "")
		}},
		{"a detection of 250,000 participants", at("/detections/search"), func(w http.ResponseWriter, r *http.Request) {
			writeDetections(w, r, 1, participants())
		}},
		{"assignees of 1 MB that change at every version", at("/detections/search"), func(w http.ResponseWriter, r *http.Request) {
			writeDetections(w, r, 4, `"assignee":"`+rand.Text()+strings.Repeat("x", 1<<20)+`"`)
		}},
		{"a detection of 15 MB", at("/detections/search"), func(w http.ResponseWriter, r *http.Request) {
			writeDetections(w, r, 1, `"description":"`+rand.Text()+strings.Repeat("x", 15<<20)+`"`)
		}},
		{"a detection that does not end", func(path string) bool {
			return strings.Contains(path, "/detections/") && !strings.HasSuffix(path, "/formats")
		}, func(w http.ResponseWriter, r *http.Request) {
			switch asked := requestOf(r); {
			case asked.IDOnly:
				io.WriteString(w, "[1]")
			case r.Method == http.MethodPost:
				io.WriteString(w, `[{"id":1,"mod_time":1,"description":"`)
				endlessly(w, []byte("x"))
			default:
				io.WriteString(w, `{"description":"`)
				endlessly(w, []byte("x"))
			}
		}},
		{"warnings that do not end", at("/records/search"), func(w http.ResponseWriter, r *http.Request) {
			repeated(`"slow",`, largeAnswer, `""]}`).behind(`{"records":[],"warnings":["`+rand.Text()+`",`).writeTo(w, "", "")
		}},
		{"warnings of 1 MB that change at every answer", at("/records/search"), func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"records":[],"warnings":["%s%s"]}`, rand.Text(), strings.Repeat("x", 1<<20))
		}},
		{"a cursor of 15 MB", at("/records/search"), func(w http.ResponseWriter, r *http.Request) {
			repeated("x", 15<<20, `"}`).behind(`{"records":[{"_id":"a"}],"total":9,"cursor":"`).writeTo(w, "", "")
		}},
		{"more objects than were asked for", isList, list(repeated(`{"id":1,"mod_time":1,"time":1},`, 1<<20, "{}"))},
		{"a page that repeats for ever", isList, writePage},
		{"audit log entries without a readable id", at("/auditlog"), func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `[{"id":"%s","time":"never","body":"%s"}]`, rand.Text(), strings.Repeat(rand.Text(), 1000))
		}},
		{"audit log entries of 1 MB that change", at("/auditlog"), func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `[{"id":%d,"time":1,"body":"%s"}]`, time.Now().UnixNano(), strings.Repeat("x", 1<<20))
		}},
	}
}

// participants is a member of a detection with 250,000 devices.
var participants = sync.OnceValue(func() string {
	var b strings.Builder
	b.WriteString(`"participants":[`)
	for i := range 250_000 {
		fmt.Fprintf(&b, `{"object_id":%d,"object_type":"device","role":"victim"},`, i)
	}
	b.WriteString("{}]")
	return b.String()
})

// isList reports whether a path lists objects.
func isList(path string) bool {
	for _, suffix := range []string{"/detections/search", "/auditlog", "/records/search", "/records/cursor", "/devices/search", "/detections/formats"} {
		if strings.HasSuffix(path, suffix) {
			return true
		}
	}
	return false
}

// around returns the text before and after the objects of a response.
func around(r *http.Request) (head, tail string) {
	switch {
	case strings.Contains(r.URL.Path, "/records/"):
		return `{"records":[`, "]}"
	case isList(r.URL.Path):
		return "[", "]"
	}
	return "", ""
}

func isAny(string) bool { return true }

func at(suffix string) func(path string) bool {
	return func(path string) bool { return strings.HasSuffix(path, suffix) }
}

// list answers requests that list objects with a text between the brackets.
func list(t text) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		head, tail := around(r)
		t.writeTo(w, head, tail)
	}
}

// text is a text that is generated while it is written: a repeated part between two others.
type text struct {
	head, part, tail string
	times            int
}

// repeated returns a part repeated up to a size in bytes, followed by a tail.
func repeated(part string, size int, tail string) text {
	return text{part: part, times: (size - len(tail)) / len(part), tail: tail}
}

func (t text) behind(head string) text {
	t.head = head
	return t
}

// writeTo answers with the text between head and tail, as gzip.
func (t text) writeTo(w http.ResponseWriter, head, tail string) {
	w.Header().Set("Content-Encoding", "gzip")
	w.Write(zipped(head + t.head))
	each := 1 + 256<<10/len(t.part)
	block := zipped(strings.Repeat(t.part, each))
	for range t.times / each {
		if _, err := w.Write(block); err != nil {
			return // the client is gone
		}
	}
	w.Write(zipped(strings.Repeat(t.part, t.times%each) + t.tail + tail))
}

// zipped returns a text as gzip. The concatenation of several is gzip as well.
func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text) // to memory
	_ = z.Close()
	return b.Bytes()
}

// endlessly writes a part until the client is gone.
func endlessly(w io.Writer, part []byte) {
	block := bytes.Repeat(part, 1+64<<10/len(part))
	for {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// asked contains the parameters of a request that attacks use.
type asked struct {
	Limit  int
	IDOnly bool `json:"id_only"`
}

func requestOf(r *http.Request) asked {
	var a asked
	if r.Method == http.MethodPost {
		_ = json.NewDecoder(r.Body).Decode(&a) // a default applies without a limit
	} else {
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &a.Limit)
	}
	if a.Limit <= 0 {
		a.Limit = 100
	}
	return a
}

// writeDetections answers with n detections changed now, or the requested number if that is
// smaller. Each contains member.
func writeDetections(w http.ResponseWriter, r *http.Request, n int, member string) {
	a := requestOf(r)
	separator := "["
	for id := range min(n, a.Limit) {
		io.WriteString(w, separator)
		separator = ","
		if a.IDOnly {
			fmt.Fprint(w, id+1)
			continue
		}
		fmt.Fprintf(w, `{"id":%d,"mod_time":%d,%s}`, id+1, time.Now().UnixMilli(), member)
	}
	io.WriteString(w, "]")
}

// writePage answers with the requested number of objects, the same each time.
func writePage(w http.ResponseWriter, r *http.Request) {
	a := requestOf(r)
	head, tail := around(r)
	if strings.HasPrefix(head, "{") {
		tail = `],"total":1000000,"cursor":"again"}`
	}
	io.WriteString(w, head)
	separator := ""
	for id := range a.Limit {
		if a.IDOnly {
			fmt.Fprintf(w, "%s%d", separator, id+1)
		} else {
			fmt.Fprintf(w, `%s{"id":%d,"mod_time":1700000000000,"time":1700000000000,"_id":"%d","_source":{"timestamp":1700000000000}}`, separator, id+1, id)
		}
		separator = ","
	}
	io.WriteString(w, tail)
}
