package appliance

import (
	"context"
	"net/http"
)

// HidingRules fetches the tuning rules that hide detections. page.Date is the appliance's time.
func (c *Client) HidingRules(ctx context.Context, page *Page) error {
	r := request{method: http.MethodGet, path: "/detections/rules/hiding", notFound: wrongAddress}
	return c.fetchPage(ctx, r, page, 0, page.decodeArray)
}
