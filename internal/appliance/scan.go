package appliance

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"ndrbridge/internal/jsonscan"
)

// maxScanned is the maximum nesting of an object's values that the scan supports. It
// leaves objects that are nested deeper, and JSON that is invalid, to the decoder.
const maxScanned = 64

// scanArray appends the objects of an array of objects, and reports whether the body is
// one. The error is that of full.
func (p *Page) scanArray(body []byte) (bool, error) {
	i := jsonscan.Space(body, 0)
	if i == len(body) || body[i] != '[' {
		return false, nil
	}
	i, more := jsonscan.First(body, i+1, ']')
	for more {
		if i == len(body) || body[i] != '{' {
			return false, nil
		}
		if err := p.full(); err != nil {
			return false, err
		}
		end := jsonscan.Value(body, i, 1+maxScanned)
		if end < 0 {
			return false, nil
		}
		p.Objects = append(p.Objects, Object{Raw: body[i:end:end]})
		i, more = jsonscan.Next(body, end, ']')
	}
	return i >= 0 && jsonscan.Space(body, i) == len(body), nil
}

// skim sends r and reads its answer, of any size, like jsonscan.Skim. After an error it has
// found nothing: fields are empty.
func (c *Client) skim(ctx context.Context, r request, path []string, fields map[string]string) (found bool, size int64, err error) {
	err = c.do(ctx, r, func(resp *http.Response) error {
		found, size, err = jsonscan.Skim(resp.Body, path, fields)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, jsonscan.ErrIncomplete):
			return fmt.Errorf("the answer's JSON is incomplete, it ends after %d bytes", size)
		case errors.Is(err, jsonscan.ErrNotObject):
			return errors.New("the answer is not the expected JSON object")
		}
		return fmt.Errorf("read the answer: %w", err)
	})
	if err != nil {
		clear(fields)
		return false, 0, err
	}
	return found, size, nil
}
