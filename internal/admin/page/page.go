// Package page serves the status page. Its files run in a browser without a build
// step and contain no data: the page fetches what it shows from the admin API under
// api/v1/, relative to its own address.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"

	"ndrbridge/docs"
)

//go:embed *.html *.css *.js *.svg
var files embed.FS

// index is the file that is served at /.
const index = "index.html"

// contentSecurityPolicy allows the page only its own files and the API on the same
// origin. Text from an appliance cannot become markup: trusted types forbid passing a
// string to anything that parses it.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// contentTypes are the content types by extension. The operating system's table may
// differ, and a browser runs a script only if its content type is right.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".md":   "text/plain; charset=utf-8", // browsers show it
}

// Handlers returns a handler for each file, by its pattern for http.ServeMux: the page
// is at /, the files it loads are and the run book that
// it links to are under /page/. The handlers answer any method like
// GET.
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
		content, err := files.ReadFile(entry.Name())
		if err != nil {
			panic(err) // the files are part of the program
		}
		handlers[pattern] = newFile(entry.Name(), content)
	}
	handlers["/page/runbook.md"] = newFile("runbook.md", docs.Runbook)
	return handlers
}

// newFile returns a handler that serves one file.
func newFile(name string, content []byte) http.Handler {
	sum := sha256.Sum256(content)
	etag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentTypes[path.Ext(name)])
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // browsers revalidate: a new version shows at once, an unchanged one costs a 304
		h.Set("ETag", etag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	})
}
