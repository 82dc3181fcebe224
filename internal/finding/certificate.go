package finding

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"ndrbridge/internal/failure"
)

// soon is the remaining validity below which a certificate is worth a warning.
const soon = 30 * 24 * time.Hour

// certificate returns a finding that describes a certificate.
func certificate(c *x509.Certificate, now time.Time) Finding {
	f := Finding{Step: "certificate", Result: OK}
	left := c.NotAfter.Sub(now)
	days := int(left / (24 * time.Hour))
	until := fmt.Sprintf("until %s, %d days left", c.NotAfter.UTC().Format(time.DateOnly), days)
	switch {
	case left <= 0:
		until = fmt.Sprintf("expired on %s", c.NotAfter.UTC().Format(time.DateOnly))
		f.Result, f.Advice = Warning, "renew it, if this machine's clock is right"
	case left < soon:
		f.Result, f.Advice = Warning, "renew it before it expires"
	}
	f.Detail = fmt.Sprintf("%s, %s, SHA-256 %s", failure.DescribeCertificate(c), until, fingerprint(c))
	return f
}

// fingerprint returns the SHA-256 fingerprint in the notation of openssl and browsers.
func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}
