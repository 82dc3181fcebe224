package configs

import (
	"net"
	"net/netip"
	"strconv"
)

// Admin configures the HTTP server for health checks, metrics, the admin API and the
// status page.
//
//	admin:
//	  listen: 0.0.0.0:9600
//	  token_file: /run/secrets/ndrbridge-admin
type Admin struct {
	// Listen is the address to listen on, host:port. An address other than loopback
	// requires a token.
	Listen string `yaml:"listen" env:"LISTEN" default:"127.0.0.1:9600" required:"true"`
	// Token is the bearer token that every request must carry, except requests for
	// /healthz and /readyz. Absent: no token is required.
	Token Secret `yaml:"token" env:"TOKEN" envPrefix:"TOKEN_"`
}

// AdminListen returns the value of admin.listen in the file at path and the environment,
// as Load would return it. Errors in other keys are ignored, because the running bridge
// may have been started before they were made. It returns an error if the file cannot be
// read, and Errors if the key itself is invalid.
func AdminListen(path string, environ []string) (string, error) {
	data, err := readFile(path)
	if err != nil {
		return "", err
	}
	p, config, whole := decode(path, data)
	if !whole {
		return "", p.errors
	}
	p.overlay(environ, config)
	if c := (checks{p, p.errors}); c.failed("admin.listen") {
		p.errors.sort()
		return "", p.errors
	}
	return config.Admin.Listen, nil
}

func (c checks) admin(admin Admin) {
	if admin.Listen == "" {
		return // reported as missing
	}
	host, port, err := net.SplitHostPort(admin.Listen)
	if err != nil || !validPort(port) {
		c.wrong("admin.listen", "%q is not an address; write host:port, for example 127.0.0.1:9600", admin.Listen)
		return
	}
	address, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !address.IsLoopback()) && !admin.Token.IsSet() {
		c.wrong("admin.listen", "%s can be reached from other hosts; set admin.token_file, or listen on 127.0.0.1", admin.Listen)
	}
}

func validPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}
