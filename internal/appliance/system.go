package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// System describes an appliance. Any field may be empty, and none is an identifier:
// hosts are renamed, and addresses change.
type System struct {
	DisplayHost      string `json:"display_host,omitempty"`
	ExternalHostname string `json:"external_hostname,omitempty"`
	Hostname         string `json:"hostname,omitempty"`
	MgmtIPAddr       string `json:"mgmt_ipaddr,omitempty"`
	Platform         string `json:"platform,omitempty"`
}

// System fetches the appliance's description. Each text is shortened to printable
// characters, as in an error message.
func (c *Client) System(ctx context.Context) (System, error) {
	var s System
	r := request{method: http.MethodGet, path: "/" + c.product, notFound: wrongAddress, small: true}
	err := c.fetch(ctx, r, func(body []byte) error {
		if err := json.Unmarshal(body, &s); err != nil {
			return fmt.Errorf("the answer does not describe the system: %w", err)
		}
		return nil
	})
	for _, text := range []*string{&s.DisplayHost, &s.ExternalHostname, &s.Hostname, &s.MgmtIPAddr, &s.Platform} {
		*text = shorten(printable(*text))
	}
	return s, err
}
