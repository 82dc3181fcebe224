package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"ndrbridge/internal/jsonscan"
)

// Search selects detections, by ascending mod_time unless Newest is set, then ascending id.
type Search struct {
	// ModTime selects detections with a later mod_time, or the same; the interface does
	// not document which. In milliseconds since the epoch, above 0: other values would
	// be relative to now.
	ModTime int64
	// Limit is the maximum number of results; 0 means the appliance's default.
	Limit int
	// Offset is the number of results to skip.
	Offset int
	// Newest sorts by descending mod_time.
	Newest bool
	// Filter is the interface's filter object, or nil.
	Filter json.RawMessage
}

type sortField struct {
	Field     string `json:"field"`
	Direction string `json:"direction"`
}

// byModTime overrides the interface's default order, which begins with the latest
// update_time.
var (
	byModTime = []sortField{{"mod_time", "asc"}, {"id", "asc"}}
	newest    = []sortField{{"mod_time", "desc"}, {"id", "asc"}}
)

func (s Search) request(idOnly bool) request {
	r := request{method: http.MethodPost, path: "/detections/search", repeatable: true, notFound: wrongAddress}
	if s.ModTime <= 0 {
		r.err = fmt.Errorf("mod_time is %d; it must be above 0", s.ModTime)
		return r
	}
	order := byModTime
	if s.Newest {
		order = newest
	}
	r.encode("search", struct {
		ModTime int64           `json:"mod_time"`
		Limit   int             `json:"limit,omitzero"`
		Offset  int             `json:"offset"`
		Sort    []sortField     `json:"sort"`
		Filter  json.RawMessage `json:"filter,omitempty"`
		IDOnly  bool            `json:"id_only,omitzero"`
	}{s.ModTime, s.Limit, s.Offset, order, s.Filter, idOnly})
	return r
}

// SearchDetections fetches the detections that s selects.
func (c *Client) SearchDetections(ctx context.Context, s Search, page *Page) error {
	return c.fetchPage(ctx, s.request(false), page, s.Limit, page.decodeArray)
}

// SearchDetectionIDs fetches only the ids of the detections that s selects; an id that
// is not a 64-bit integer is 0.
func (c *Client) SearchDetectionIDs(ctx context.Context, s Search) ([]int64, error) {
	var ids []int64
	err := c.fetch(ctx, s.request(true), func(body []byte) (err error) {
		ids, err = decodeIDs(body, s.Limit)
		return err
	})
	return ids, err
}

// Detection fetches one detection, the only object of page then. It returns an *Error
// with status 404 if there is none with this id, and one that wraps ErrTooLarge if it
// is larger than Options.MaxAnswer.
func (c *Client) Detection(ctx context.Context, id int64, page *Page) error {
	return c.fetchPage(ctx, detectionRequest(id), page, 1, page.decodeObject)
}

// DetectionModTime reads the beginning of a detection, which may have any size, and returns
// its mod_time in milliseconds since the epoch; 0 if the beginning does not have it.
func (c *Client) DetectionModTime(ctx context.Context, id int64) (modTime int64, err error) {
	detection, err := c.skim(ctx, detectionRequest(id), false, "")
	modTime, _ = jsonscan.Millis(member(detection, "mod_time")) // 0 after an error
	return modTime, err
}

func detectionRequest(id int64) request {
	return request{method: http.MethodGet, path: "/detections/" + strconv.FormatInt(id, 10)}
}

// fetchPage is fetchObjects, and sets page.Date to the appliance's time.
func (c *Client) fetchPage(ctx context.Context, r request, page *Page, maxObjects int, decode func(body []byte) error) error {
	var given stamp
	r.stamp = &given
	err := c.fetchObjects(ctx, r, page, maxObjects, decode)
	if err != nil {
		return err
	}
	if page.Date, err = c.timeOf(ctx, r, given); err != nil {
		page.Release()
	}
	return err
}

// fetchObjects sends r and fills page by passing the answer's body to decode. page may
// have up to maxObjects objects, or maxRows if maxObjects is 0; more are an error.
// page.Date is not set.
func (c *Client) fetchObjects(ctx context.Context, r request, page *Page, maxObjects int, decode func(body []byte) error) error {
	page.maxObjects = maxObjects
	if err := c.waitAside(ctx); err != nil { // without memory, for which others wait
		return c.wrap(r, err)
	}
	r.waited = true
	if err := c.borrow(ctx, page); err != nil {
		return c.wrap(r, fmt.Errorf("wait for memory for the answer: %w", err))
	}
	err := c.fetchInto(ctx, r, page, decode)
	if err != nil {
		page.Release()
	}
	return err
}
