package forward

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// hop are the header fields that a head does not take from a request or response: it
// writes them itself, or they concern one connection.
var hop = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true,
	"Connection": true, "Upgrade": true, "Expect": true,
}

// requestHead returns the head of a request in the form of HTTP/1.1.
func requestHead(r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", cmp.Or(r.Method, http.MethodGet), r.URL.RequestURI(), cmp.Or(r.Host, r.URL.Host))
	switch {
	case !hasBody(r):
	case r.ContentLength > 0:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", r.ContentLength)
	default:
		b.WriteString("Transfer-Encoding: chunked\r\n") // the length is not known
	}
	_ = r.Header.WriteSubset(&b, hop) // a buffer has no errors
	return checkHead(&b, "request")
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// responseHead returns the head of a response in the form of HTTP/1.1.
func responseHead(status int, h http.Header) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", status, http.StatusText(status))
	if length := h.Get("Content-Length"); length != "" {
		if n, err := strconv.ParseUint(length, 10, 63); err == nil {
			fmt.Fprintf(&b, "Content-Length: %d\r\n", n)
		}
	}
	_ = h.WriteSubset(&b, hop) // a buffer has no errors
	return checkHead(&b, "response")
}

func checkHead(b *bytes.Buffer, what string) ([]byte, error) {
	b.WriteString("\r\n")
	if b.Len() > maxHead {
		return nil, fmt.Errorf("the head of the %s is larger than %d bytes", what, maxHead)
	}
	return b.Bytes(), nil
}

// parseRequest returns the request with a head. Its body is body, or empty if the head
// declares none.
func parseRequest(head []byte, body io.ReadCloser) (*http.Request, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		return nil, fmt.Errorf("read the head of the request: %w", err)
	}
	if r.Body = body; r.ContentLength == 0 {
		r.Body = http.NoBody
	}
	return r, nil
}

// parseResponse returns the response to r with a head and a body.
func parseResponse(head []byte, r *http.Request, body io.ReadCloser) (*http.Response, error) {
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), r)
	if err != nil {
		return nil, fmt.Errorf("read the head of the response: %w", err)
	}
	resp.Body = body
	return resp, nil
}
