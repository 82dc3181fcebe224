package appliance

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// RelatedDetections fetches the detections that are related to another one between two times in
// milliseconds since the epoch. page.Date is not set.
func (c *Client) RelatedDetections(ctx context.Context, id, from, until int64, page *Page) error {
	r := request{
		method: http.MethodGet, path: detectionRequest(id).path + "/related",
		query: url.Values{"from": {strconv.FormatInt(from, 10)}, "until": {strconv.FormatInt(until, 10)}},
	}
	return c.fetchObjects(ctx, r, page, 0, page.decodeArray)
}
