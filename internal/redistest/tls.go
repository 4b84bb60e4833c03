package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A PKI is a certificate authority for one test, and certificates that it has signed: one
// for servers on 127.0.0.1, and one for clients.
type PKI struct {
	Dir    string // has ca.pem, server.pem, client.pem and their keys, as in client-key.pem
	Roots  *x509.CertPool
	Client tls.Certificate
}

// NewPKI makes the certificates. They end with the test.
func NewPKI(t TB) *PKI {
	t.Helper()
	dir, err := os.MkdirTemp("", "redistest-")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &PKI{Dir: dir, Roots: x509.NewCertPool()}
	ca := p.certificate(t, "ca", nil)
	p.Roots.AddCert(ca.Leaf)
	p.certificate(t, "server", &ca)
	p.Client = p.certificate(t, "client", &ca)
	return p
}

// certificate makes a certificate signed by ca, or an authority if ca is nil.
func (p *PKI) certificate(t TB, name string, ca *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: ca == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := leaf, key
	if ca != nil {
		parent, signer = ca.Leaf, ca.PrivateKey.(*ecdsa.PrivateKey)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, &key.PublicKey, signer)
	check(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	for file, text := range map[string][]byte{name + ".pem": certPEM, name + "-key.pem": keyPEM} {
		check(t, os.WriteFile(filepath.Join(p.Dir, file), text, 0o600))
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	check(t, err)
	return pair
}

// Config returns the configuration of a client that trusts the servers. shows says whether
// the client shows its certificate.
func (p *PKI) Config(shows bool) *tls.Config {
	conf := &tls.Config{RootCAs: p.Roots, MinVersion: tls.VersionTLS12}
	if shows {
		conf.Certificates = []tls.Certificate{p.Client}
	}
	return conf
}

// Args returns the arguments for a server that also listens for TLS on another port, which
// was free a moment ago, and requires a certificate of each client there; and the address
// of that port.
func (p *PKI) Args(t TB) (args []string, addr string) {
	t.Helper()
	port, err := freePort()
	check(t, err)
	file := func(name string) string { return filepath.Join(p.Dir, name) }
	return []string{
		"--tls-port", strconv.Itoa(port), "--tls-auth-clients", "yes", "--tls-ca-cert-file", file("ca.pem"),
		"--tls-cert-file", file("server.pem"), "--tls-key-file", file("server-key.pem"),
	}, loopback(port)
}
