package appliance_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

// serveTLS starts an appliance with its own certificate. The caller opens a connection for
// each request, and shown returns the certificates of a new one.
func serveTLS(t *testing.T) (c *caller, shown func() []*x509.Certificate) {
	t.Helper()
	a, c := serve(t, standin.Options{Host: "sensor.example:8443"})
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: a, TLSConfig: &tls.Config{GetCertificate: a.GetCertificate}, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ServeTLS(listener, "", "") }) // it ends when the server is closed
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = server.Close() })
	insecure := &tls.Config{InsecureSkipVerify: true}
	c.url, c.client = "https://"+listener.Addr().String(), &http.Client{Transport: &http.Transport{TLSClientConfig: insecure, DisableKeepAlives: true}}
	return c, func() []*x509.Certificate {
		t.Helper()
		resp := require.Value(c.client.Get(c.url))(t)
		resp.Body.Close()
		return resp.TLS.PeerCertificates
	}
}

func TestCertificates(t *testing.T) {
	c, shown := serveTLS(t)
	first := shown()[0]
	assert.NoError(t, first.VerifyHostname("sensor.example"))
	again := shown()[0]
	assert.True(t, again.Equal(first), "the certificate changes by itself")
	c.want(204, "POST", "/service/sslcert", "")
	second := shown()[0]
	assert.True(t, !second.Equal(first) && second.CheckSignature(second.SignatureAlgorithm, second.RawTBSCertificate, second.Signature) == nil)

	authority := certificate.New(t, "authority", time.Now().Add(time.Hour), nil)
	replacement := certificate.New(t, "sensor.example", time.Now().Add(time.Hour), &authority)
	replacementPEM, key := certificate.PEM(t, replacement)
	authorityPEM, _ := certificate.PEM(t, authority)
	const plain = "text/plain; charset=utf-8"
	c.typed(plain, 204, "PUT", "/service/sslcert", replacementPEM+"\n"+key)
	if got := shown(); len(got) != 1 || !got[0].Equal(replacement.Leaf) {
		t.Errorf("the certificate is %v, want that which was put", got[0].Subject)
	}
	c.typed(plain, 204, "PUT", "/service/sslcert", replacementPEM+authorityPEM)
	got := shown()
	assert.True(t, len(got) == 2 && got[1].Equal(authority.Leaf), len(got), "certificates are served, want that of the authority as well")
	c.typed("application/json", 415, "PUT", "/service/sslcert", `{}`)
}

func TestSigningRequests(t *testing.T) {
	c, shown := serveTLS(t)
	request := func(t *testing.T, body string) *x509.CertificateRequest {
		t.Helper()
		var answer struct{ PEM string }
		require.NoError(t, json.Unmarshal([]byte(c.want(200, "POST", "/service/sslcert/signingrequest", body).body), &answer))
		block, _ := pem.Decode([]byte(answer.PEM))
		made := require.Value(x509.ParseCertificateRequest(block.Bytes))(t)
		assert.NoError(t, made.CheckSignature())
		return made
	}
	made := request(t, `{"subject":{"common_name":"sensor.example","country_code":"DE","organization_name":"Example"},
		"subject_alternative_names":[{"type":"dns","name":"sensor.example"},{"type":"ip","name":"192.0.2.10"},
		{"type":"email","name":"soc@example.com"},{"type":"uri","name":"https://sensor.example/"}]}`)
	assert.Equal(t, made.Subject.String(), "CN=sensor.example,O=Example,C=DE", "the subject is")
	if !slices.Equal(made.DNSNames, []string{"sensor.example"}) || len(made.IPAddresses) != 1 || len(made.EmailAddresses) != 1 || len(made.URIs) != 1 {
		t.Errorf("the names are %v %v %v %v", made.DNSNames, made.IPAddresses, made.EmailAddresses, made.URIs)
	}
	t.Run("what it requests can be put without the key", func(t *testing.T) {
		authority := certificate.New(t, "authority", time.Now().Add(time.Hour), nil)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: made.Subject, NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, made.PublicKey, authority.PrivateKey)
		require.NoError(t, err)
		c.typed("text/plain", 204, "PUT", "/service/sslcert", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
		got := shown()[0]
		assert.True(t, bytes.Equal(got.Raw, der), "another certificate is served")
		again := request(t, `{"subject":{"common_name":"a"},"subject_alternative_names":[{"type":"dns","name":"a"}]}`)
		assert.True(t, bytes.Equal(again.RawSubjectPublicKeyInfo, made.RawSubjectPublicKeyInfo), "the key has changed")
	})
}
