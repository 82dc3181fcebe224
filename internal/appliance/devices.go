package appliance

import (
	"context"
	"net/http"
)

// SearchDevices fetches the devices with these ids, in no particular order. Ids unknown
// to the appliance are omitted. page.Date is not set.
func (c *Client) SearchDevices(ctx context.Context, ids []int64, page *Page) error {
	r := request{method: http.MethodPost, path: "/devices/search", repeatable: true, notFound: wrongAddress}
	type filter struct {
		Field    string  `json:"field"`
		Operator string  `json:"operator"`
		Operand  []int64 `json:"operand"`
	}
	r.encode("search", struct {
		Filter filter `json:"filter"`
		Limit  int    `json:"limit"`
	}{filter{"id", "in", ids}, len(ids)})
	return c.fetchObjects(ctx, r, page, len(ids), page.decodeArray)
}

// DetectionFormats fetches the detection formats: the display names of detection types.
// page.Date is not set.
func (c *Client) DetectionFormats(ctx context.Context, page *Page) error {
	r := request{method: http.MethodGet, path: "/detections/formats", notFound: wrongAddress}
	return c.fetchObjects(ctx, r, page, 0, page.decodeArray)
}
