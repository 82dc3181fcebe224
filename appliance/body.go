package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
)

// readBody appends the answer's body to buf and returns it, whatever the error.
// ErrTooLarge where it has more than limit bytes.
func readBody(resp *http.Response, buf []byte, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return buf, fmt.Errorf("%w: %d bytes, of %d", ErrTooLarge, resp.ContentLength, limit)
	}
	// One byte more than there is lets the last read see the end.
	const least = 32 << 10
	buf = slices.Grow(buf, max(least, int(resp.ContentLength)+1))
	for {
		n, err := resp.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return buf, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, fmt.Errorf("read the answer: %w", err)
		}
		if len(buf) == cap(buf) {
			// Twice as much makes few copies, but no more than can be used.
			buf = slices.Grow(buf, min(len(buf), int(limit-int64(len(buf)))+1))
		}
	}
}

// contentError says that an answer is not what the interface says.
type contentError struct {
	excerpt string
	err     error
}

func (e *contentError) Error() string { return e.err.Error() }

// unexpected words what is wrong with a body that could not be taken for err.
func unexpected(resp *http.Response, body []byte, err error) error {
	body = bytes.TrimSpace(body[:min(len(body), maxDrain)])
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case bytes.HasPrefix(body, []byte("[")):
		return &contentError{"", err} // what was found on a network does not belong into an error
	case bytes.HasPrefix(body, []byte("{")):
		return &contentError{printable(jsonMessage(body)), err}
	case isHTML(body) || kind == "text/html":
		err = errors.New("the answer is an HTML page, not JSON: is url the appliance's own address, or is this the login page of a proxy?")
	}
	return &contentError{excerpt(body), err}
}

// fetch sends r and reads the answer's body into buf, which decode then takes.
// decode's error means that the body is not what it should be.
func (c *Client) fetch(ctx context.Context, r request, buf *[]byte, decode func(body []byte) error) (http.Header, error) {
	var header http.Header
	err := c.do(ctx, r, func(resp *http.Response) error {
		var err error
		limit := c.maxAnswer
		if r.small {
			limit = min(limit, maxSmall)
		}
		if *buf, err = readBody(resp, (*buf)[:0], limit); err != nil {
			return err
		}
		if err := decode(*buf); err != nil {
			return unexpected(resp, *buf, err)
		}
		header = resp.Header
		return nil
	})
	return header, err
}
