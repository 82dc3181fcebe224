package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// Health returns nil if the bridge answers /healthz with 2xx. It needs no token.
func (c *Client) Health(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("healthz").String(), nil)
	if err != nil {
		return fmt.Errorf("ask the bridge: %w", err)
	}
	body, err := c.send(req)
	if err != nil {
		return err
	}
	return body.Close()
}

// serverName is the Server header of every answer.
const serverName = "ndrbridge"

// IsBridge reports whether the admin interface of a bridge answers at address, an http
// URL without a path. It sends no token.
func IsBridge(ctx context.Context, address string) bool {
	client, err := NewClient(address, "")
	if err != nil {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, client.base.JoinPath("healthz").String(), nil)
	if err != nil {
		return false
	}
	req.Close = true
	resp, err := client.http.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.Header.Get("Server") == serverName
}

// DialAddress returns the address at which a listener on the address listen is reached
// from this machine: an unspecified host becomes loopback.
func DialAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}
