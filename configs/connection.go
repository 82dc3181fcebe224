package configs

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"slices"
	"strings"

	"ndrbridge/internal/secretfile"
)

// TLS configures how the server's certificate is verified, and the client certificate.
// By default, the system's certificate authorities are trusted and no client certificate
// is sent.
type TLS struct {
	// CAFile is the path of a PEM file with the certificate authorities to trust instead
	// of the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile is the path of a PEM file with a client certificate; it requires
	// [TLS.KeyFile].
	CertFile string `yaml:"cert_file" with:"key_file"`
	// KeyFile is the path of a PEM file with the private key of [TLS.CertFile].
	KeyFile string `yaml:"key_file" with:"cert_file"`
	// ServerName is the name that the server's certificate must have. Absent: the host
	// in the address.
	ServerName string `yaml:"server_name"`
	// InsecureSkipVerify accepts any server certificate. Use it for tests only.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify"`
}

func (t *TLS) check(c checks, path string) {
	c.authorities(path+".ca_file", t.CAFile)
	c.keyPair(path, t.CertFile, t.KeyFile)
}

// authorities checks the content of a file with certificate authorities. A file that cannot
// be read is reported elsewhere.
func (c checks) authorities(path, file string) {
	if text, err := secretfile.Read(file); err == nil && !c.withoutSecrets && !x509.NewCertPool().AppendCertsFromPEM(text) {
		c.wrong(path, "%s contains no PEM certificate; correct the path, or convert the file to PEM", file)
	}
}

// keyPair checks the contents of a certificate and its key, the keys cert_file and key_file of the
// block at path. Files that cannot be read are reported elsewhere.
func (c checks) keyPair(path, certFile, keyFile string) {
	certificate, err := secretfile.Read(certFile)
	key, errKey := secretfile.Read(keyFile)
	if err != nil || errKey != nil || c.withoutSecrets {
		return
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		c.wrong(path+".cert_file", "%s cannot be used with key_file: %s; write a PEM certificate and its own PEM key, without a passphrase", certFile, strings.TrimPrefix(err.Error(), "tls: "))
	}
}

// url checks a URL. Errors do not quote the URL, which may contain secrets.
func (c checks) url(path, text string, schemes []string) {
	parsed, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"):
		c.wrong(path, "has no scheme; write %s:// and the host, such as %s://name.example", schemes[0], schemes[0])
	case err != nil && strings.Contains(err.Error(), "invalid port"):
		c.wrong(path, "has an invalid port; write a number from 1 to 65535")
	case err != nil || parsed.Hostname() == "":
		c.wrong(path, "is not a URL with a scheme and a host, such as %s://name.example", schemes[0])
	case !slices.Contains(schemes, parsed.Scheme):
		c.wrong(path, "has a scheme that cannot be used here; write one of %s", strings.Join(schemes, ", "))
	case parsed.Port() != "" && !validPort(parsed.Port()):
		c.wrong(path, "has an invalid port; write a number from 1 to 65535")
	}
}

// bareURL checks that a URL has only a scheme and a host, and returns it without a slash at
// the end. The messages say where credentials belong, and which path is requested.
func (c checks) bareURL(path, text, credentials, appended string) string {
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Host == "": // reported by the schemes tag
	case parsed.User != nil:
		c.wrong(path, "contains a user name; write only scheme and host, and %s", credentials)
	case parsed.Path != "" && parsed.Path != "/", parsed.RawQuery != "", parsed.ForceQuery, parsed.Fragment != "":
		c.wrong(path, "has something after the host; write %s://%s, %s", parsed.Scheme, parsed.Host, appended)
	default:
		return parsed.Scheme + "://" + parsed.Host
	}
	return text
}
