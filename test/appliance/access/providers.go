package access

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

func (c *Control) newProviders() *resource.Collection {
	return resource.NewCollection(c.options.Description, resource.Kind{
		Path: "/auth/identityproviders", Name: "identity provider", Component: "IdentityProvider", Unique: []string{"name"}, Max: 100,
		Check: func(_ *rest.Request, _, after resource.Object) error {
			return checkCertificate(resource.Text(after, "signing_certificate"))
		},
		Removed: func(id int64) {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.providing, id)
		},
	})
}

// checkCertificate checks a certificate in PEM; empty: there is none.
func checkCertificate(text string) error {
	if text == "" {
		return nil
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 { // maybe a private key
		return errors.New("signing_certificate: must be one certificate in PEM, and nothing else")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return fmt.Errorf("signing_certificate: %w", err)
	}
	return nil
}

// privileges are the fields of the privileges of an identity provider.
var privileges = []string{"detectionsaccesslevel", "ndrlevel", "npmlevel", "packetslevel", "writelevel"}

func (c *Control) getPrivileges(r *rest.Request) rest.Answer {
	id := r.ID("id")
	if !c.providers.Has(id) {
		return noProvider(id)
	}
	shown := make(map[string]any, len(privileges))
	for _, name := range privileges {
		shown[name] = struct{}{}
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	maps.Copy(shown, c.providing[id])
	return rest.JSON(http.StatusOK, shown)
}

func (c *Control) patchPrivileges(r *rest.Request) rest.Answer {
	id := r.ID("id")
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.providers.Has(id) {
		return noProvider(id)
	}
	if c.providing[id] == nil {
		c.providing[id] = make(map[string]any)
	}
	maps.Copy(c.providing[id], r.Object())
	return rest.NoContent()
}

func noProvider(id int64) rest.Answer {
	return rest.NotFound("no identity provider has the id %d", id)
}

// The parts of the metadata of a SAML 2.0 service provider.
type (
	entityDescriptor struct {
		XMLName  xml.Name `xml:"urn:oasis:names:tc:SAML:2.0:metadata EntityDescriptor"`
		EntityID string   `xml:"entityID,attr"`
		Provider spDescriptor
	}
	spDescriptor struct {
		XMLName              xml.Name `xml:"SPSSODescriptor"`
		AuthnRequestsSigned  bool     `xml:"AuthnRequestsSigned,attr"`
		WantAssertionsSigned bool     `xml:"WantAssertionsSigned,attr"`
		Protocols            string   `xml:"protocolSupportEnumeration,attr"`
		NameIDFormat         string
		Consumer             consumer
	}
	consumer struct {
		XMLName  xml.Name `xml:"AssertionConsumerService"`
		Binding  string   `xml:"Binding,attr"`
		Location string   `xml:"Location,attr"`
		Index    int      `xml:"index,attr"`
	}
)

func (c *Control) serviceProvider(*rest.Request) rest.Answer {
	const names = "urn:oasis:names:tc:SAML:"
	host := "https://" + c.options.Host()
	entity, consumes := host+"/saml/metadata", host+"/saml/acs"
	document, err := xml.MarshalIndent(entityDescriptor{EntityID: entity, Provider: spDescriptor{
		WantAssertionsSigned: true, Protocols: names + "2.0:protocol",
		NameIDFormat: names + "2.0:nameid-format:persistent",
		Consumer:     consumer{Binding: names + "2.0:bindings:HTTP-POST", Location: consumes},
	}}, "", "  ")
	if err != nil {
		panic(err) // strings, booleans and numbers
	}
	return rest.JSON(http.StatusOK, map[string]string{"entity_id": entity, "acs_url": consumes, "xml": xml.Header + string(document)})
}
