// Package explorer serves the appliance's interactive explorer: a page that lists the
// operations of the interface, shows samples of requests in cURL, Python and Ruby, and sends
// requests with a key. The page is Swagger UI, which the module swgui embeds; it loads nothing
// from elsewhere, so that it works without an Internet connection.
package explorer

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/swaggest/swgui/v5/static"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
)

//go:embed index.html explorer.js explorer.css
var own embed.FS

const (
	// Path is where the page is.
	Path = openapi.Root + "/explore/"
	// DescriptionPath is where the page reads the description of the interface.
	DescriptionPath = Path + "openapi.json"
)

// The page consists of files from this server only. Swagger UI has its icons in data URLs.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Serves reports whether a path belongs to the explorer.
func Serves(path string) bool {
	return strings.HasPrefix(path, Path) || path == strings.TrimSuffix(Path, "/")
}

// Answer serves a request to a path that belongs to the explorer. description is the OpenAPI
// document, scheme the word in Authorization. The request needs no credential.
func Answer(r *http.Request, description []byte, scheme string) rest.Answer {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refused := rest.Refuse(http.StatusMethodNotAllowed, "the method %s is not allowed", r.Method)
		refused.Header = http.Header{"Allow": {"GET, HEAD"}}
		return refused
	}
	name, ok := strings.CutPrefix(r.URL.Path, Path)
	if !ok {
		return rest.Answer{Status: http.StatusPermanentRedirect, Header: http.Header{"Location": {Path}}}
	}
	switch name {
	case "":
		return page("index.html", withScheme(mustRead(own, "index.html"), scheme))
	case "openapi.json":
		return page(name, withScheme(description, scheme))
	case "explorer.js", "explorer.css":
		return page(name, mustRead(own, name))
	case "favicon-32x32.png":
		return page(name, mustRead(static.FS, name))
	case "swagger-ui-bundle.js", "swagger-ui.css":
		packed := mustRead(static.FS, name+".gz")
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			return page(name, unpack(packed))
		}
		ans := page(name, packed)
		ans.Header.Set("Content-Encoding", "gzip")
		return ans
	}
	return rest.NotFound("no such page")
}

func page(name string, content []byte) rest.Answer {
	return rest.Answer{
		Status:      http.StatusOK,
		ContentType: contentType(name),
		Header: http.Header{
			"Cache-Control":           {"no-cache"},
			"Content-Security-Policy": {contentSecurityPolicy},
			"Referrer-Policy":         {"no-referrer"},
			"X-Content-Type-Options":  {"nosniff"},
		},
		Parts: [][]byte{content},
	}
}

// contentType returns the type of a file, whatever this machine's list of types says.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".png":
		return "image/png"
	case ".json":
		return rest.TypeJSON
	}
	return rest.TypeHTML
}

// withScheme writes the word of a product into the example of a credential.
func withScheme(content []byte, scheme string) []byte {
	return bytes.ReplaceAll(content, []byte("Service apikey="), []byte(scheme+" apikey="))
}

// mustRead reads an embedded file.
func mustRead(files embed.FS, name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return content
}

func unpack(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(fmt.Errorf("unpack an embedded file: %w", err))
	}
	content, err := io.ReadAll(r)
	if err != nil {
		panic(fmt.Errorf("unpack an embedded file: %w", err))
	}
	return content
}
