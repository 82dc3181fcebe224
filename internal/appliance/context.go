package appliance

import (
	"context"
	"net/http"
	"strconv"
)

// Members is a kind of sets of devices.
type Members string

// The kinds of sets.
const (
	DeviceGroups Members = "/devicegroups"
	Tags         Members = "/tags"
)

// Sets fetches all sets of a kind. page.Date is not set.
func (c *Client) Sets(ctx context.Context, kind Members, page *Page) error {
	r := request{method: http.MethodGet, path: string(kind)}
	return c.fetchObjects(ctx, r, page, 0, page.decodeArray)
}

// DevicesIn fetches the devices of a set. page.Date is not set.
func (c *Client) DevicesIn(ctx context.Context, kind Members, id int64, page *Page) error {
	r := request{method: http.MethodGet, path: string(kind) + "/" + strconv.FormatInt(id, 10) + "/devices"}
	return c.fetchObjects(ctx, r, page, 0, page.decodeArray)
}

// DeviceSoftware fetches the software that was observed on a device. page.Date is not set.
func (c *Client) DeviceSoftware(ctx context.Context, id int64, page *Page) error {
	r := request{method: http.MethodGet, path: "/devices/" + strconv.FormatInt(id, 10) + "/software"}
	return c.fetchObjects(ctx, r, page, 0, page.decodeArray)
}
