package configs

import (
	"net"
	"slices"
)

// Embedded makes each member run a NATS server for the cluster, so that no others are needed.
// These servers connect to each other with TLS in both directions. They sync each write to
// disk, listen for each other only, and accept clients of the bridge on their own machines only.
//
//	cluster:
//	  name: prod
//	  nats:
//	    embedded:
//	      peers: ["bridge-1.example:6222", "bridge-2.example:6222", "bridge-3.example:6222"]
//	      tls:
//	        cert_file: /etc/ndrbridge/member.crt
//	        key_file: /etc/ndrbridge/member.key
//	        ca_file: /etc/ndrbridge/members-ca.crt
type Embedded struct {
	// Listen is the address, host:port, at which this member's server listens for those of
	// the other members.
	Listen string `yaml:"listen" default:"0.0.0.0:6222" required:"true" form:"listen"`
	// Peers are the addresses, host:port, at which the servers of all members reach each
	// other, this member's included: 3 or more, and at least as many as replicas.
	Peers []string `yaml:"peers" required:"true" form:"peer"`
	// Folder is the path of the folder in which the server stores the cluster's state. Absent:
	// the path of the state file, followed by .nats.
	Folder string      `yaml:"folder"`
	TLS    EmbeddedTLS `yaml:"tls"`
}

// EmbeddedTLS configures how the embedded servers prove to each other that they belong to the
// cluster. A server is accepted if its certificate is signed by an authority of ca_file and valid
// for a host in peers. The files are read again for each connection.
type EmbeddedTLS struct {
	// CertFile is the path of a PEM file with a server certificate for the host that peers has
	// for this member, followed by its intermediates.
	CertFile string `yaml:"cert_file" required:"true"`
	// KeyFile is the path of a PEM file with the private key of [EmbeddedTLS.CertFile].
	KeyFile string `yaml:"key_file" required:"true"`
	// CAFile is the path of a PEM file with the certificate authorities that sign the members'
	// certificates.
	CAFile string `yaml:"ca_file" required:"true"`
}

// minPeers is the smallest number of servers of which one can fail.
const minPeers = 3

func (t *EmbeddedTLS) check(c checks, path string) {
	c.keyPair(path, t.CertFile, t.KeyFile)
	c.authorities(path+".ca_file", t.CAFile)
}

func (e *Embedded) check(c checks, path string) {
	peers := path + ".peers"
	for i, peer := range e.Peers {
		if first := slices.Index(e.Peers, peer); first < i {
			c.wrong(item(peers, i), "%q is also %s; write each member once", peer, item(peers, first))
		}
	}
	least := max(minPeers, c.config.Cluster.Replicas)
	if n := len(e.Peers); n > 0 && n < least {
		c.wrong(peers, "has %d of at least %d members; write the addresses of all members, this one included", n, least)
	}
	if loopback(e.Listen) && slices.ContainsFunc(e.Peers, func(peer string) bool { return !loopback(peer) }) {
		c.wrong(path+".listen", "%s cannot be reached by the other members; listen on an address of the network, such as 0.0.0.0:6222", e.Listen)
	}
}

// loopback reports whether an address, host:port, has a host that only this machine reaches.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && isLoopback(host)
}
