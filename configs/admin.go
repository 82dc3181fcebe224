package configs

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Admin configures the HTTP server for health checks, metrics, the admin API and the
// status page.
//
//	admin:
//	  listen: 0.0.0.0:9600
//	  token_file: /run/secrets/ndrbridge-admin
//	  tls: {cert_file: /etc/ndrbridge/tls.crt, key_file: /etc/ndrbridge/tls.key}
type Admin struct {
	// Listen is the address to listen on, host:port. An address other than loopback
	// requires a token or client certificates, and that the tokens and the secrets of
	// [Tickets.Webhooks] have at least 8 characters.
	Listen string `yaml:"listen" default:"127.0.0.1:9600" required:"true" form:"listen"`
	// Advertise is the URL at which the other members of the cluster reach this one: http or
	// https, a host and optionally a port. All members need the same [Admin.Token].
	// Only for a cluster. Absent: the name of the host with the port of [Admin.Listen], unless
	// that is a loopback address.
	Advertise string `yaml:"advertise" schemes:"https,http"`
	// Token is the bearer token that every request must carry, except requests for
	// /healthz and /readyz. Absent: no token is required.
	Token Secret `yaml:"token"`
	// ReadToken is another bearer token. Requests with it may read everything, including
	// events and dead letters, and change nothing. It requires [Admin.Token].
	ReadToken Secret `yaml:"read_token"`
	// TLS serves HTTPS instead of HTTP.
	TLS AdminTLS `yaml:"tls"`
}

// AdminTLS configures HTTPS for the admin interface. The files are read again when they
// change.
type AdminTLS struct {
	// CertFile is the path of a PEM file with the certificate, followed by its
	// intermediates; it requires [AdminTLS.KeyFile]. Absent: HTTP is served.
	CertFile string `yaml:"cert_file" with:"key_file"`
	// KeyFile is the path of a PEM file with the private key of [AdminTLS.CertFile].
	KeyFile string `yaml:"key_file" with:"cert_file"`
	// ClientCAFile is the path of a PEM file with certificate authorities. Requests must
	// then come with a client certificate that one of them has signed, except requests for
	// /healthz, /readyz and the files of the status page, and webhooks with a secret.
	// Absent: no client certificate is required.
	ClientCAFile string `yaml:"client_ca_file" with:"cert_file"`
}

// Enabled reports whether HTTPS is served.
func (t AdminTLS) Enabled() bool { return t.CertFile != "" }

// Scheme returns the scheme of the admin interface's URL, http or https.
func (a Admin) Scheme() string {
	if a.TLS.Enabled() {
		return "https"
	}
	return "http"
}

// Advertise returns the URL at which other members of the cluster reach the admin
// interface, without a slash at the end. It is empty if they cannot, because it listens on
// a loopback address.
func (c *Config) Advertise() string {
	if c.Admin.Advertise != "" {
		return strings.TrimSuffix(c.Admin.Advertise, "/")
	}
	host, port, err := net.SplitHostPort(c.Admin.Listen)
	if err != nil || isLoopback(host) {
		return ""
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return c.Admin.Scheme() + "://" + net.JoinHostPort(name, port)
}

// LoadControl returns what is needed to find the bridge that runs with a configuration:
// State, Admin and Cluster, as Load would return them, but unchecked. It returns Errors if one of
// the keys, or what is below it, could not be read, or a file is not a YAML mapping. Errors in
// other keys are ignored, because the running bridge may have been started before they were
// made.
func LoadControl(s Source, keys ...string) (*Config, error) {
	files, err := s.read(prefix)
	if err != nil {
		return nil, err
	}
	p, config, whole := decode(files, s)
	c := checks{p, p.errors, config}
	for _, key := range keys {
		below := func(e *Error) bool { return strings.HasPrefix(e.Path, key+".") }
		whole = whole && !c.failed(key) && !slices.ContainsFunc(p.errors, below)
	}
	if !whole {
		p.sort()
		return nil, p.errors
	}
	state, err := filepath.Abs(config.State)
	if err != nil {
		return nil, fmt.Errorf("find the state: %w", err)
	}
	return &Config{State: state, Admin: config.Admin, Cluster: config.Cluster}, nil
}

func (t *AdminTLS) check(c checks, path string) {
	c.keyPair(path, t.CertFile, t.KeyFile)
	c.authorities(path+".client_ca_file", t.ClientCAFile)
}

func (a *Admin) check(c checks, path string) {
	if a.ReadToken.IsSet() && !a.Token.IsSet() && !c.failedSecret(path+".token") {
		c.wrong(path+".read_token", "is set without token; without that, every caller may change everything: set admin.token_file, too")
	}
	c.differentTokens(*a)
	a.Advertise = c.bareURL(path+".advertise", a.Advertise, "the members have the same token", "each request's path is appended")
	if a.Advertise != "" && !c.config.Cluster.Enabled() && !c.failed("cluster") {
		c.wrong(path+".advertise", "is set without cluster; leave it out, or set cluster")
	}
	host, _, err := net.SplitHostPort(a.Listen)
	if err != nil || isLoopback(host) {
		return // no address is reported by the form tag
	}
	if !a.protected() {
		c.wrong(path+".listen", "%s can be reached from other hosts; set admin.token_file or admin.tls.client_ca_file, or listen on 127.0.0.1", a.Listen)
	}
	c.guessable(path, *a)
	c.guessable("tickets.webhooks", c.config.Tickets.Webhooks)
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// guessable checks that no secret in a block, with which other hosts prove who they are, is
// so short that it can be guessed.
func (c checks) guessable(path string, block any) {
	for _, key := range shortSecrets(path, reflect.ValueOf(block)) {
		c.wrong(key, "has less than %d characters, and admin.listen can be reached from other hosts; choose a longer secret, such as the output of openssl rand -hex 32", minSecret)
	}
}

// differentTokens checks that the token for reading is not the other one, with which it could
// change everything. Tokens that cannot be read are reported elsewhere.
func (c checks) differentTokens(admin Admin) {
	token, err := admin.Token.Read()
	reading, errReading := admin.ReadToken.Read()
	if err != nil || errReading != nil || reading == "" || reading != token {
		return
	}
	key := "admin.read_token"
	if admin.ReadToken.File != "" {
		key += fileSuffix
	}
	c.wrong(key, "is the same as that of admin.token, which may change everything; choose another one")
}

// protected reports whether requests must prove who sends them.
func (a Admin) protected() bool { return a.Token.IsSet() || a.TLS.ClientCAFile != "" }

func validPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}
