package appliance_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
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
	"ndrbridge/test/require"
)

// issued is a certificate in PEM, with its key.
type issued struct {
	certificate, key string
	x509             *x509.Certificate
}

// issue signs a certificate for a public key, or for a new key if it is nil.
func issue(t *testing.T, public any) issued {
	t.Helper()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	var made issued
	if public == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		der, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(t, err)
		made.key, public = encodePEM("PRIVATE KEY", der), key.Public()
	}
	issuer := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "issued"}, NotAfter: time.Now().Add(time.Hour),
	}, issuer, public, authority)
	require.NoError(t, err)
	made.certificate = encodePEM("CERTIFICATE", der)
	if made.x509, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return made
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// serveTLS starts an appliance with its own certificate. The caller opens a connection for
// each request, and shown returns the certificates of a new one.
func serveTLS(t *testing.T) (c *caller, shown func() []*x509.Certificate) {
	t.Helper()
	a, c := serve(t, standin.Options{Host: "sensor.example:8443"})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: a, TLSConfig: &tls.Config{GetCertificate: a.GetCertificate}, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ServeTLS(listener, "", "") }) // it ends when the server is closed
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = server.Close() })
	insecure := &tls.Config{InsecureSkipVerify: true}
	c.url, c.client = "https://"+listener.Addr().String(), &http.Client{Transport: &http.Transport{TLSClientConfig: insecure, DisableKeepAlives: true}}
	return c, func() []*x509.Certificate {
		t.Helper()
		resp, err := c.client.Get(c.url)
		require.NoError(t, err)
		resp.Body.Close()
		return resp.TLS.PeerCertificates
	}
}

func TestCertificates(t *testing.T) {
	c, shown := serveTLS(t)
	first := shown()[0]
	if err := first.VerifyHostname("sensor.example"); err != nil {
		t.Error(err)
	}
	if again := shown()[0]; !again.Equal(first) {
		t.Error("the certificate changes by itself")
	}
	c.want(204, "POST", "/service/sslcert", "")
	second := shown()[0]
	if second.Equal(first) || second.CheckSignature(second.SignatureAlgorithm, second.RawTBSCertificate, second.Signature) != nil {
		t.Error("the certificate was not generated again, self-signed")
	}

	replacement, other := issue(t, nil), issue(t, nil)
	const plain = "text/plain; charset=utf-8"
	c.typed(plain, 204, "PUT", "/service/sslcert", replacement.certificate+"\n"+replacement.key)
	if got := shown(); len(got) != 1 || !got[0].Equal(replacement.x509) {
		t.Errorf("the certificate is %v, want that which was put", got[0].Subject)
	}
	c.typed(plain, 204, "PUT", "/service/sslcert", replacement.certificate+other.certificate)
	if got := shown(); len(got) != 2 || !got[1].Equal(other.x509) {
		t.Errorf("%d certificates are served, want that of the authority as well", len(got))
	}
	c.typed("application/json", 415, "PUT", "/service/sslcert", `{}`)
}

func TestSigningRequests(t *testing.T) {
	c, shown := serveTLS(t)
	request := func(t *testing.T, body string) *x509.CertificateRequest {
		t.Helper()
		var answer struct{ PEM string }
		require.NoError(t, json.Unmarshal([]byte(c.want(200, "POST", "/service/sslcert/signingrequest", body).body), &answer))
		block, _ := pem.Decode([]byte(answer.PEM))
		made, err := x509.ParseCertificateRequest(block.Bytes)
		require.NoError(t, err)
		if err := made.CheckSignature(); err != nil {
			t.Error(err)
		}
		return made
	}
	made := request(t, `{"subject":{"common_name":"sensor.example","country_code":"DE","organization_name":"Example"},
		"subject_alternative_names":[{"type":"dns","name":"sensor.example"},{"type":"ip","name":"192.0.2.10"},
		{"type":"email","name":"soc@example.com"},{"type":"uri","name":"https://sensor.example/"}]}`)
	if got := made.Subject.String(); got != "CN=sensor.example,O=Example,C=DE" {
		t.Errorf("the subject is %s", got)
	}
	if !slices.Equal(made.DNSNames, []string{"sensor.example"}) || len(made.IPAddresses) != 1 || len(made.EmailAddresses) != 1 || len(made.URIs) != 1 {
		t.Errorf("the names are %v %v %v %v", made.DNSNames, made.IPAddresses, made.EmailAddresses, made.URIs)
	}
	t.Run("what it requests can be put without the key", func(t *testing.T) {
		signed := issue(t, made.PublicKey)
		c.typed("text/plain", 204, "PUT", "/service/sslcert", signed.certificate)
		if got := shown()[0]; !got.Equal(signed.x509) {
			t.Error("another certificate is served")
		}
		if again := request(t, `{"subject":{"common_name":"a"},"subject_alternative_names":[{"type":"dns","name":"a"}]}`); !bytes.Equal(again.RawSubjectPublicKeyInfo, made.RawSubjectPublicKeyInfo) {
			t.Error("the key has changed")
		}
	})
}
