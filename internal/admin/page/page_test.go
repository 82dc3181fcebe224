package page_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ndrbridge/internal/admin/page"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func get(t *testing.T, handler http.Handler, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func TestFilesHaveStrictHeaders(t *testing.T) {
	types := map[string]string{"": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".md": "text/plain; charset=utf-8"}
	for pattern, handler := range page.Handlers() {
		t.Run(pattern, func(t *testing.T) {
			answer := get(t, handler)
			if answer.Code != http.StatusOK || answer.Body.Len() == 0 {
				t.Errorf("%d, %d bytes", answer.Code, answer.Body.Len())
			}
			for name, want := range map[string]string{
				"Content-Type":                 types[filepath.Ext(pattern)],
				"X-Content-Type-Options":       "nosniff",
				"Referrer-Policy":              "no-referrer",
				"Cross-Origin-Opener-Policy":   "same-origin",
				"Cross-Origin-Resource-Policy": "same-origin",
				"Cache-Control":                "no-cache",
			} {
				assert.Equal(t, answer.Header().Get(name), want, name)
			}
			policy := answer.Header().Get("Content-Security-Policy")
			for _, directive := range []string{
				"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
				"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
			} {
				assert.Contains(t, policy+";", directive+";", policy, "lacks", directive)
			}
			if again := get(t, handler, "If-None-Match", answer.Header().Get("ETag")); again.Code != http.StatusNotModified {
				t.Errorf("revalidated: %d", again.Code)
			}
		})
	}
}

func TestTheFiles(t *testing.T) {
	names := require.Value(filepath.Glob("*"))(t)
	handlers := page.Handlers()
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|setHTML|createContextualFragment|\beval\(|new Function|srcdoc`)
	inline := regexp.MustCompile(`(?i)<script(>| [^>]*>[^<])|<style|\sstyle=|\son[a-z]+=|javascript:`)
	elsewhere := regexp.MustCompile(`https?://|["'(]//`)
	reference := regexp.MustCompile(`(?:from "\./|(?:href|src)="page/)([^"]+)"`)
	for _, name := range names {
		if filepath.Ext(name) == ".go" {
			continue
		}
		text := require.Value(os.ReadFile(name))(t)
		t.Run(name+" makes no markup from text", func(t *testing.T) {
			assert.Equal(t, markup.FindString(string(text)), "")
		})
		t.Run(name+" has no inline script or style", func(t *testing.T) {
			if found := inline.FindString(string(text)); filepath.Ext(name) == ".html" && found != "" {
				t.Error(found)
			}
		})
		t.Run(name+" loads nothing from elsewhere", func(t *testing.T) {
			// The namespace of SVG is a name from which nothing is fetched.
			assert.Equal(t, elsewhere.FindString(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")), "")
		})
		t.Run(name+" refers to existing files", func(t *testing.T) {
			for _, match := range reference.FindAllStringSubmatch(string(text), -1) {
				if handlers["/page/"+match[1]] == nil {
					t.Error(match[1])
				}
			}
		})
	}
}
