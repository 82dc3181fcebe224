package admin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// NewOwnClient returns a client of the bridge that listens on the address listen of this
// machine, with these files if they are set. token may be empty.
func NewOwnClient(listen, token string, files TLS) (*Client, error) {
	scheme := "http"
	if files.CertFile != "" {
		scheme = "https"
	}
	c, err := NewClient(scheme+"://"+DialAddress(listen), token)
	if err == nil && files.CertFile != "" {
		c.UseTLS(files.Client())
	}
	return c, err
}

// UseTLS makes the client use a configuration for https. It must be called before the
// first request. The caller must not change the configuration afterwards.
func (c *Client) UseTLS(config *tls.Config) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	c.http.Transport = transport
}

// Close closes the connections that no request uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

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

// IsBridge reports whether the admin interface of a bridge answers. It sends no token.
func (c *Client) IsBridge(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, c.base.JoinPath("healthz").String(), nil)
	if err != nil {
		return false
	}
	req.Close = true
	resp, err := c.http.Do(req)
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
