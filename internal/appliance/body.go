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

// readBody appends the answer's body to buf and returns it, even with an error. It
// returns ErrTooLarge if the body is larger than limit bytes. It calls grow with the
// total size before it allocates memory.
func readBody(resp *http.Response, buf []byte, limit int64, grow func(size int64) error) ([]byte, error) {
	if resp.ContentLength > limit {
		return buf, fmt.Errorf("%w: %d bytes, of %d", ErrTooLarge, resp.ContentLength, limit)
	}
	// One extra byte lets the last Read return the end of the body.
	size := max(smallBody, int(resp.ContentLength)+1)
	if err := grow(int64(size)); err != nil {
		return buf, fmt.Errorf("wait for memory for an answer: %w", err)
	}
	buf = slices.Grow(buf, size)
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
			// Doubling keeps copies few, but never beyond limit.
			more := min(len(buf), int(limit-int64(len(buf)))+1)
			if err := grow(int64(len(buf) + more)); err != nil {
				return buf, fmt.Errorf("wait for memory for an answer of more than %d bytes: %w", len(buf), err)
			}
			buf = slices.Grow(buf, more)
		}
	}
}

// contentError reports an answer whose content is not what the interface documents.
type contentError struct {
	excerpt string
	page    bool // of HTML or XML
	err     error
}

func (e *contentError) Error() string { return e.err.Error() }

// unexpected returns the error for a body that could not be decoded because of err.
func unexpected(resp *http.Response, body []byte, err error) error {
	body = bytes.TrimSpace(body[:min(len(body), maxDrain)])
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case bytes.HasPrefix(body, []byte("[")):
		return &contentError{"", false, err} // an error must not quote detections
	case bytes.HasPrefix(body, []byte("{")):
		return &contentError{printable(jsonMessage(body)), false, err}
	case isHTML(body) || kind == "text/html":
		err = errors.New("the answer is an HTML page, not JSON: url is not the appliance's own address, or a proxy's login page answers")
	}
	return &contentError{excerpt(body), isPage(body), err}
}

// fetch sends r and passes the answer's body to decode, whose error means that the body
// is not what it should be.
func (c *Client) fetch(ctx context.Context, r request, decode func(body []byte) error) error {
	return c.fetchInto(ctx, r, new(Page), decode)
}

// fetchInto is fetch using the memory of page.
func (c *Client) fetchInto(ctx context.Context, r request, page *Page, decode func(body []byte) error) error {
	answered := false
	err := c.do(ctx, r, func(resp *http.Response) error {
		var err error
		limit := c.maxAnswer
		if r.small {
			limit = min(limit, maxSmall)
		}
		var waited error
		grow := func(size int64) error {
			if waited = page.grow(resp.Request.Context(), size); waited != nil && ctx.Err() == nil {
				waited = fmt.Errorf("%w: %w", ErrNoMemory, waited)
			}
			return waited
		}
		page.body, err = readBody(resp, page.body[:0], limit, grow)
		answered = len(page.body) > 0 || waited != nil || errors.Is(err, ErrTooLarge)
		if err != nil {
			return err
		}
		page.answered, page.last = true, int64(len(page.body))
		if err := decode(page.body); err != nil {
			return unexpected(resp, page.body, err)
		}
		return nil
	})
	if err != nil && !answered {
		page.answered, page.last = true, 0 // the next request starts with a small loan
	}
	return err
}
