// Package page is the status page: files that a browser runs as they are, without
// a build step. They hold no data; all that the page shows, it asks of the admin
// API under api/v1/, relative to where it lies itself.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

//go:embed *.html *.css *.js *.svg
var files embed.FS

// index is the file that is served at /.
const index = "index.html"

// contentSecurityPolicy lets the page use its own files and the API beside it, and
// nothing else. What an appliance says is text: no sink that parses markup takes a
// string.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// contentTypes are those of the files. The machine's own table may differ, and a
// browser runs nothing that it is not told to be a script.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Handlers returns what serves each file, by the pattern of its path in
// http.ServeMux: the page at /, what it loads under /page/. They answer any method
// as if it were GET.
func Handlers() map[string]http.Handler {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the files are part of the program
	}
	handlers := make(map[string]http.Handler)
	for _, entry := range entries {
		pattern := "/page/" + entry.Name()
		if entry.Name() == index {
			pattern = "/{$}"
		}
		handlers[pattern] = newFile(entry.Name())
	}
	return handlers
}

// file is one file as it is served.
type file struct {
	name, contentType, etag string
	content                 []byte
}

func newFile(name string) file {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the files are part of the program
	}
	sum := sha256.Sum256(content)
	return file{name, contentTypes[path.Ext(name)], `"` + hex.EncodeToString(sum[:16]) + `"`, content}
}

func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // a new version is seen at once, an old one costs a 304
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.content))
}
