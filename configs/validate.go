package configs

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/secretfile"
)

// checks validates the values that were read, and records the errors.
type checks struct {
	*sourceLines
	unread Errors // errors of values that could not be read
}

func validate(p *sourceLines, config *Config) {
	c := checks{p, slices.Clone(p.errors)}
	c.tags("", reflect.ValueOf(config).Elem())
	c.admin(config.Admin)
	if !typePrefix.MatchString(config.Events.TypePrefix) {
		c.wrong("events.type_prefix", "%q is not a valid type prefix; write words of letters, digits, - and _, separated by dots", config.Events.TypePrefix)
	}
	if every := config.Events.Heartbeat; every > 0 && every < Duration(time.Second) {
		c.wrong("events.heartbeat", "is %s; write at least 1s, or 0 for none", every)
	}
	c.appliances(config.Appliances)
	c.sinks(config.Sinks, config.State)
	for i, s := range config.Sinks {
		c.lag(item("sinks", i)+".lag", s.Lag, config.Journal.MaxBytes)
		if s.Webhook != nil {
			c.ticket(item("sinks", i)+".webhook", s, config.Tickets.Enabled)
		}
	}
	c.tickets(config.Tickets, config.Admin)
	c.tracing(config.Tracing)
}

// wrong records an error, unless the value at path could not be read, which is an error
// already.
func (c checks) wrong(path, format string, args ...any) {
	if !c.failed(path) {
		c.fail(path, fmt.Sprintf(format, args...))
	}
}

// failed reports whether the value at path, or a block that contains it, could not be
// read.
func (c checks) failed(path string) bool {
	for _, e := range c.unread {
		rest, within := strings.CutPrefix(path, e.Path)
		if within && e.Path != "" && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// failedSecret reports whether either key of a secret could not be read.
func (c checks) failedSecret(path string) bool {
	return c.failed(path) || c.failed(path+fileSuffix)
}

// tags checks what follows from tags and types alone: oneof tags, bounds, required values,
// secrets that are set twice, and files that must be readable.
func (c checks) tags(path string, block reflect.Value) {
	for _, f := range fieldsOf(block.Type()) {
		path, value := join(path, f.name), block.Field(f.index)
		c.bounds(path, f.bounds, value)
		if f.required {
			c.required(path, value)
		}
		switch shapeOf(f.typ) {
		case shapeBlock:
			c.tags(path, value)
		case shapeOption:
			if !value.IsNil() {
				c.tags(path, value.Elem())
			}
		case shapeBlocks:
			for i := range value.Len() {
				c.tags(item(path, i), value.Index(i))
			}
		case shapeTexts:
			for i := range value.Len() {
				c.oneof(item(path, i), value.Index(i).String(), f.oneof)
			}
		case shapeSecret:
			c.secret(path, value.Interface().(Secret))
		case shapeText:
			if value.Kind() != reflect.String {
				continue
			}
			if value.String() != "" {
				c.oneof(path, value.String(), f.oneof)
			} else if f.fallback != "" && f.oneof != nil {
				c.wrong(path, "is empty; write one of %s", strings.Join(f.oneof, ", "))
			}
			if strings.HasSuffix(f.name, fileSuffix) && value.String() != "" {
				c.readable(path, value.String())
			}
		}
	}
}

func (c checks) oneof(path, value string, allowed []string) {
	if allowed != nil && !slices.Contains(allowed, value) {
		c.wrong(path, "%q is not one of %s%s", value, strings.Join(allowed, ", "), suggest(value, allowed))
	}
}

func (c checks) secret(path string, s Secret) {
	switch {
	case s.value != nil && s.File != "":
		c.wrong(path, "is set, and so is %s; keep one of them", path[strings.LastIndexByte(path, '.')+1:]+fileSuffix)
	case s.File != "":
		if _, err := s.Read(); err != nil {
			c.wrong(path+fileSuffix, "%v; write the secret into that file, where the bridge may read it, or correct the path", err)
		}
	case s.value != nil:
		if _, err := s.Read(); err != nil {
			c.wrong(path, "has a line break or another control character; write only the secret, on one line")
		}
	}
}

func (c checks) readable(path, file string) {
	if _, err := secretfile.Read(file); err != nil {
		c.wrong(path, "%v; correct the path, or let the bridge read the file", err)
	}
}

// required checks that there is a value. It does not check lists of blocks, which have
// messages of their own.
func (c checks) required(path string, value reflect.Value) {
	if url, is := value.Interface().(URL); is && url.Value() == "" ||
		value.Kind() == reflect.String && value.Len() == 0 || shapeOf(value.Type()) == shapeTexts && value.Len() == 0 {
		c.missing(path)
	}
}

func (c checks) present(path, value string) {
	if value == "" {
		c.missing(path)
	}
}

func (c checks) presentSecret(path string, secret Secret) {
	if !secret.IsSet() && !c.failedSecret(path) {
		c.missing(path + fileSuffix)
	}
}

func (c checks) missing(path string) {
	c.wrong(path, "is missing; set it, or the variable %s", variableOf(path))
}

func (c checks) atLeast(path string, n, least int) {
	if n < least {
		c.wrong(path, "is %d; it must be at least %d", n, least)
	}
}

func (c checks) retry(path string, initial, most Duration) {
	if most < initial {
		c.wrong(path+".max", "is %s, shorter than initial, which is %s", most, initial)
	}
}

var (
	namePattern = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	typePrefix  = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
)

// name checks a name, which must not be in before. It adds the name to before with the path
// of its block.
func (c checks) name(path, name string, before map[string]string) {
	switch {
	case name == "": // reported as missing
	case !namePattern.MatchString(name):
		c.wrong(path, "%q is not a valid name; write 1 to 63 of a-z, 0-9 and -", name)
	case before[name] != "":
		c.wrong(path, "%q is also the name of %s; names must be unique", name, before[name])
	default:
		before[name] = parent(path)
	}
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

// url checks a URL and returns it parsed, or nil after an error. Errors do not quote the
// URL, which may contain secrets.
func (c checks) url(path string, text URL, schemes ...string) *url.URL {
	parsed, err := url.Parse(text.Value())
	switch {
	case err != nil || parsed.Hostname() == "":
		c.wrong(path, "is not a URL with a scheme and a host, such as %s://name.example", schemes[0])
	case !slices.Contains(schemes, parsed.Scheme):
		c.wrong(path, "has a scheme that cannot be used here; write one of %s", strings.Join(schemes, ", "))
	case parsed.Port() != "" && !validPort(parsed.Port()):
		c.wrong(path, "has an invalid port")
	default:
		return parsed
	}
	return nil
}

func (c checks) proxy(path string, proxy URL) {
	if proxy.Value() != "" {
		c.url(path, proxy, "http", "https", "socks5")
	}
}

func (c checks) tls(path string, tls TLS) {
	switch {
	case tls.CertFile != "" && tls.KeyFile == "":
		c.wrong(path+".cert_file", "is set without key_file; a client certificate needs both")
	case tls.CertFile == "" && tls.KeyFile != "":
		c.wrong(path+".key_file", "is set without cert_file; a client certificate needs both")
	}
}

// login checks that a user name and a password are both set or both unset.
func (c checks) login(path, username string, password Secret) {
	switch {
	case c.failedSecret(path + ".password"):
	case username != "" && !password.IsSet():
		c.wrong(path+".username", "is set without password_file; set both or none")
	case username == "" && password.IsSet():
		c.wrong(path+".password", "is set without username; set both or none")
	}
}

// samePath reports whether two paths are the same after they are made absolute.
func samePath(a, b string) bool {
	absoluteA, errA := filepath.Abs(a)
	absoluteB, errB := filepath.Abs(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return absoluteA == absoluteB
}
