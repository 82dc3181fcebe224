package appliance

import (
	"context"
	"net/http"
)

// HidingRules fetches the tuning rules that hide detections. page.Date is the appliance's time.
func (c *Client) HidingRules(ctx context.Context, page *Page) error {
	return c.fetchList(ctx, "/detections/rules/hiding", page)
}

// fetchList fetches all objects under a path that not every appliance has, whose answer does not
// come in pages.
func (c *Client) fetchList(ctx context.Context, path string, page *Page) error {
	return c.fetchPage(ctx, request{method: http.MethodGet, path: path, notFound: notOffered}, page, 0, page.decodeArray)
}
