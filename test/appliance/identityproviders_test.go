package appliance_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"math/big"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

// certificate returns a certificate in PEM, as a JSON string.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	require.NoError(t, err)
	return mustJSON(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

func TestIdentityProviders(t *testing.T) {
	_, c := serve(t, standin.Options{})
	const (
		path     = "/auth/identityproviders"
		required = `{"name":"IdP","enabled":true,"type":"saml","auto_provision_users":false}`
	)
	pem := certificate(t)
	if at := c.want(201, "POST", path, required).header.Get("Location"); at != "/api/v1/auth/identityproviders/1" {
		t.Errorf("the location is %s", at)
	}
	c.want(204, "PATCH", path+"/1", `{"enabled":false,"entity_id":"urn:idp","sso_url":"https://idp.example/sso","signing_certificate":`+pem+`}`)
	changed := `{"auto_provision_users":false,"enabled":false,"entity_id":"urn:idp","id":1,"name":"IdP","signing_certificate":` + pem + `,"sso_url":"https://idp.example/sso","type":"saml"}`
	if got := c.want(200, "GET", path+"/1", "").body; got != changed {
		t.Errorf("the provider is %s, want %s", got, changed)
	}
	if got := c.want(200, "GET", path, "").body; got != "["+changed+"]" {
		t.Errorf("the providers are %s", got)
	}

	c.want(204, "PATCH", path+"/1/privileges", `{"ndrlevel":{"attribute":"groups","values":{"soc":"full"}},"npmlevel":{"attribute":"a"}}`)
	c.want(204, "PATCH", path+"/1/privileges", `{"npmlevel":{}}`)
	const rules = `{"detectionsaccesslevel":{},"ndrlevel":{"attribute":"groups","values":{"soc":"full"}},"npmlevel":{},"packetslevel":{},"writelevel":{}}`
	if got := c.want(200, "GET", path+"/1/privileges", "").body; got != rules {
		t.Errorf("the privileges are %s", got)
	}
	c.want(204, "DELETE", path+"/1", "")
	c.want(404, "GET", path+"/1/privileges", "")
	c.user("ada", `{"write":"full"}`).want(403, "GET", path, "")
}

func TestServiceProvider(t *testing.T) {
	_, c := serve(t, standin.Options{Host: "ndr.example"})
	var got struct {
		EntityID string `json:"entity_id"`
		ACS      string `json:"acs_url"`
		XML      string
	}
	require.NoError(t, json.Unmarshal([]byte(c.want(200, "GET", "/auth/samlsp", "").body), &got))
	var metadata struct {
		EntityID string `xml:"entityID,attr"`
		Provider struct {
			Consumer struct {
				Location string `xml:"Location,attr"`
			} `xml:"AssertionConsumerService"`
		} `xml:"urn:oasis:names:tc:SAML:2.0:metadata SPSSODescriptor"`
	}
	require.NoError(t, xml.Unmarshal([]byte(got.XML), &metadata))
	if got.EntityID != "https://ndr.example/saml/metadata" || metadata.EntityID != got.EntityID || metadata.Provider.Consumer.Location != got.ACS {
		t.Errorf("the metadata is %+v", got)
	}
}
