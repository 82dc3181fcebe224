package certificate

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"ndrbridge/test/appliance/rest"
)

// Store holds the certificate of an appliance. It is safe for concurrent use.
type Store struct {
	now  func() time.Time
	host func() string

	mu      sync.Mutex
	current *tls.Certificate // nil: none was needed yet
}

// NewStore returns a store that begins with a certificate; nil: a self-signed one, which is
// made when it is needed. now returns the time from which a self-signed certificate is valid,
// and host the name of the appliance.
func NewStore(first *tls.Certificate, now func() time.Time, host func() string) *Store {
	return &Store{current: first, now: now, host: host}
}

// Current returns the certificate to serve new connections with.
func (s *Store) Current() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		made, err := selfSigned(s.now(), s.host())
		if err != nil {
			return nil, err
		}
		s.current = made
	}
	return s.current, nil
}

func (s *Store) set(c *tls.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = c
}

// Handlers returns the handlers of the operations on the certificate.
func (s *Store) Handlers() rest.Handlers {
	return rest.Handlers{
		"POST /service/sslcert":                s.regenerate,
		"PUT /service/sslcert":                 s.replace,
		"POST /service/sslcert/signingrequest": s.request,
	}
}

func (s *Store) regenerate(*rest.Request) rest.Answer {
	made, err := selfSigned(s.now(), s.host())
	if err != nil {
		return rest.Unprocessable("%v", err)
	}
	s.set(made)
	return done("Generated a self-signed certificate")
}

func (s *Store) replace(r *rest.Request) rest.Answer {
	current, err := s.Current()
	if err != nil {
		return rest.Unprocessable("%v", err)
	}
	made, err := parse(r.Data, current.PrivateKey)
	if err != nil {
		return rest.BadRequest(err)
	}
	s.set(made)
	return done("Replaced the certificate")
}

func done(details string) rest.Answer {
	answer := rest.NoContent()
	answer.Audit = &rest.Audit{Operation: "Modify", Component: "Certificate", Details: details}
	return answer
}

// subject is the subject of a signing request.
type subject struct {
	CommonName         string `json:"common_name"`
	Country            string `json:"country_code"`
	Province           string `json:"state_or_province_name"`
	Locality           string `json:"locality_name"`
	Organization       string `json:"organization_name"`
	OrganizationalUnit string `json:"organizational_unit_name"`
}

// request creates a signing request for the key of the current certificate.
func (s *Store) request(r *rest.Request) rest.Answer {
	var body struct {
		Subject subject
		Names   []struct{ Type, Name string } `json:"subject_alternative_names"`
	}
	if err := r.Decode(&body); err != nil {
		return rest.BadRequest(err)
	}
	template := &x509.CertificateRequest{Subject: body.Subject.name()}
	for i, n := range body.Names {
		if err := add(template, n.Type, n.Name); err != nil {
			return rest.BadRequest(fmt.Errorf("subject_alternative_names.%d.name: %w", i, err))
		}
	}
	current, err := s.Current()
	if err != nil {
		return rest.Unprocessable("%v", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, current.PrivateKey)
	if err != nil {
		return rest.BadRequest(fmt.Errorf("create the signing request: %w", err))
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return rest.JSON(http.StatusOK, map[string]string{"pem": string(text)})
}

func (s subject) name() pkix.Name {
	list := func(text string) []string {
		if text == "" {
			return nil
		}
		return []string{text}
	}
	return pkix.Name{
		CommonName: s.CommonName, Country: list(s.Country), Province: list(s.Province), Locality: list(s.Locality),
		Organization: list(s.Organization), OrganizationalUnit: list(s.OrganizationalUnit),
	}
}

// add adds an alternative name of a type to a signing request.
func add(to *x509.CertificateRequest, kind, name string) error {
	switch kind {
	case "dns":
		to.DNSNames = append(to.DNSNames, name)
	case "ip":
		ip := net.ParseIP(name)
		if ip == nil {
			return errors.New("it is not an IP address")
		}
		to.IPAddresses = append(to.IPAddresses, ip)
	case "email":
		to.EmailAddresses = append(to.EmailAddresses, name)
	case "uri":
		u, err := url.Parse(name)
		if err != nil || u.Scheme == "" {
			return errors.New("it is not a URI")
		}
		to.URIs = append(to.URIs, u)
	}
	return nil
}
