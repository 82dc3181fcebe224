package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Search selects detections, lowest mod_time first, then lowest id.
type Search struct {
	// ModTime is what mod_time must be after, or at: which of the two the
	// interface leaves open. In milliseconds since the epoch, above 0: 0 and
	// less would be relative to now.
	ModTime int64
	// Limit is how many are returned at most; 0: as many as the appliance wants.
	Limit int
	// Offset is how many are passed over.
	Offset int
	// Filter is the interface's filter object; nil: none.
	Filter json.RawMessage
}

type sortField struct {
	Field     string `json:"field"`
	Direction string `json:"direction"`
}

// The default order of the interface begins with the latest update_time.
var byModTime = []sortField{{"mod_time", "asc"}, {"id", "asc"}}

func (s Search) request(idOnly bool) (request, error) {
	r := request{method: http.MethodPost, path: "/detections/search", repeatable: true, notFound: wrongAddress}
	if s.ModTime <= 0 {
		return r, fmt.Errorf("mod_time is %d, and must be above 0", s.ModTime)
	}
	body, err := json.Marshal(struct {
		ModTime int64           `json:"mod_time"`
		Limit   int             `json:"limit,omitzero"`
		Offset  int             `json:"offset"`
		Sort    []sortField     `json:"sort"`
		Filter  json.RawMessage `json:"filter,omitempty"`
		IDOnly  bool            `json:"id_only,omitzero"`
	}{s.ModTime, s.Limit, s.Offset, byModTime, s.Filter, idOnly})
	if err != nil {
		return r, fmt.Errorf("encode the search: %w", err)
	}
	r.body = body
	return r, nil
}

// SearchDetections asks for the detections that s selects.
func (c *Client) SearchDetections(ctx context.Context, s Search, page *Page) error {
	r, err := s.request(false)
	if err != nil {
		page.clear()
		return c.wrap(r, err)
	}
	return c.fetchPage(ctx, r, page, s.Limit, page.decodeArray)
}

// SearchDetectionIDs asks for the ids alone of the detections that s selects; 0 for
// one whose id is no 64-bit integer.
func (c *Client) SearchDetectionIDs(ctx context.Context, s Search) ([]int64, error) {
	r, err := s.request(true)
	if err != nil {
		return nil, c.wrap(r, err)
	}
	var ids []int64
	_, err = c.fetch(ctx, r, func(body []byte) error {
		ids, err = decodeIDs(body, s.Limit)
		return err
	})
	return ids, err
}

// Detection asks for one detection: page then has one object. An *Error with
// status 404 where there is none with this id; one that wraps ErrTooLarge where
// it has more bytes than Options.MaxAnswer.
func (c *Client) Detection(ctx context.Context, id int64, page *Page) error {
	return c.fetchPage(ctx, detectionRequest(id), page, 1, page.decodeObject)
}

// DetectionModTime reads through a detection of any size and keeps nothing but
// its mod_time, in milliseconds since the epoch; 0 where it has none that is a
// 64-bit integer. size is the number of bytes of the answer. Options.Timeout
// holds, Options.MaxAnswer does not.
func (c *Client) DetectionModTime(ctx context.Context, id int64) (modTime, size int64, err error) {
	err = c.do(ctx, detectionRequest(id), func(resp *http.Response) error {
		fields := map[string]string{"mod_time": ""}
		_, size, err = skim(resp.Body, nil, fields)
		modTime = integer(fields["mod_time"])
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return modTime, size, nil
}

// integer is 0 where text is no 64-bit integer.
func integer(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func detectionRequest(id int64) request {
	return request{method: http.MethodGet, path: "/detections/" + strconv.FormatInt(id, 10)}
}

// fetchPage fills page as fetchObjects does, and with the appliance's time.
func (c *Client) fetchPage(ctx context.Context, r request, page *Page, most int, decode func(body []byte) error) error {
	var given stamp
	r.stamp = &given
	err := c.fetchObjects(ctx, r, page, most, decode)
	if err != nil {
		return err
	}
	if page.Date, err = c.timeOf(ctx, r, given); err != nil {
		page.Release()
	}
	return err
}

// fetchObjects sends r and fills page from the answer, whose body decode takes: with
// most objects, or maxRows if most is 0. An answer that has more is an error. The page
// has no Date.
func (c *Client) fetchObjects(ctx context.Context, r request, page *Page, most int, decode func(body []byte) error) error {
	page.most = most
	if err := c.lease(ctx, page); err != nil {
		return c.wrap(r, fmt.Errorf("wait for memory for the answer: %w", err))
	}
	_, err := c.fetchInto(ctx, r, page, decode)
	if err != nil {
		page.Release()
	}
	return err
}
