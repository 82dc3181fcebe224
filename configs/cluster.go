package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
)

// Cluster makes the bridge a member of a cluster: one of several bridges with the same
// configuration does the work, and another one takes over if it fails. Their state is
// stored in NATS JetStream. All of its keys but member must be the same for all members,
// and none of them can change while the bridge runs.
//
//	cluster:
//	  name: prod
//	  nats:
//	    url: nats://nats-1.example:4222,nats://nats-2.example:4222,nats://nats-3.example:4222
//	    creds_file: /run/secrets/nats.creds
type Cluster struct {
	// Name identifies the cluster: 1 to 32 of a-z, 0-9 and -. It is part of the names of
	// its streams. Clusters that share NATS servers need different names.
	Name string `yaml:"name" required:"true" form:"cluster"`
	// Member identifies this bridge among the members: 1 to 63 letters, digits, - and _. It
	// must be unique, and stay the same over restarts. Absent: the name of the host, up to
	// its first dot.
	Member string      `yaml:"member" form:"member"`
	NATS   ClusterNATS `yaml:"nats"`
	// Replicas is the number of NATS servers that store each stream. 3 survives the loss of
	// one server, 5 of two; use 1 for tests only.
	Replicas int `yaml:"replicas" default:"3" min:"1" max:"5"`
	// Lease is how long a member may work after its last write to NATS. If it fails, another
	// one takes over after a quarter more than this.
	Lease Duration `yaml:"lease" default:"6s" min:"2s"`
	// Archive configures archives of the state, which the owner writes: copies as those of
	// ndrbridge state backup, from which ndrbridge cluster recover --from continues if NATS and all
	// members are lost. Absent: none.
	Archive *Archive `yaml:"archive"`
}

// Archive configures archives of the cluster's state. The owner writes the next one when the newest
// in its folder is older than every.
//
//	cluster:
//	  name: prod
//	  nats:
//	    url: nats://nats-1.example:4222,nats://nats-2.example:4222,nats://nats-3.example:4222
//	  archive:
//	    folder: /mnt/backups/ndrbridge
type Archive struct {
	// Folder is the path of an existing folder, best on another machine, and the same one for all
	// members. The files are named ndrbridge-NAME-TIME.db, with the cluster's name and the time in
	// UTC; other files in the folder stay.
	Folder string `yaml:"folder" required:"true"`
	// Every is how often an archive is written.
	Every Duration `yaml:"every" default:"24h" min:"1m"`
	// Keep is the number of archives that are kept, the newest ones.
	Keep int `yaml:"keep" default:"7" min:"1"`
}

// Enabled reports whether the bridge is a member of a cluster. c may be nil.
func (c *Cluster) Enabled() bool { return c != nil }

// ClusterNATS configures the NATS servers that store the cluster's state: servers of your own at
// url, or embedded ones. Servers of your own must sync each write to disk (sync_interval: always).
// At most one form of authentication may be set, as for the sink.
type ClusterNATS struct {
	// URL is the URL of a server, or of several, separated by commas: nats or tls. It is
	// required without embedded.
	URL URL `yaml:"url" schemes:"nats,tls" several:"true"`
	NATSLogin
	Embedded *Embedded `yaml:"embedded"`
}

func (n *ClusterNATS) check(c checks, path string) {
	n.NATSLogin.check(c, path)
	embedded := n.Embedded != nil || c.failed(path+".embedded")
	switch set := setKeys(ClusterNATS{URL: n.URL, NATSLogin: n.NATSLogin}); {
	case !embedded && len(n.URL.Value()) == 0 && !c.failed(path+".url"):
		c.wrong(path, "has neither url nor embedded; set url to use NATS servers of your own, or embedded to let each member run one")
	case embedded && len(set) > 0:
		c.wrong(path, "has embedded, and also %s, which is for servers of your own; keep one", enumerate(set, "and"))
	}
}

// Connection returns the configuration of a sink that connects to the same servers.
func (n ClusterNATS) Connection() NATS {
	return NATS{URL: n.URL, NATSLogin: n.NATSLogin}
}

// hostName returns the name of the host up to its first dot, or "" if it is unknown.
func hostName() string {
	host, _ := os.Hostname()
	name, _, _ := strings.Cut(host, ".")
	return name
}

// clusterDefaults sets the member's name to that of the host, if that can be used, and the folder
// of its NATS server to one beside the state.
func clusterDefaults(config *Config) {
	host := hostName()
	if config.Cluster.Enabled() && config.Cluster.Member == "" && forms["member"].pattern().MatchString(host) {
		config.Cluster.Member = host
	}
	if e := config.embedded(); e != nil && e.Folder == "" {
		e.Folder = config.State + ".nats"
	}
}

// embedded returns the configuration of the member's own NATS server, or nil.
func (c *Config) embedded() *Embedded {
	if !c.Cluster.Enabled() {
		return nil
	}
	return c.Cluster.NATS.Embedded
}

func (m *Cluster) check(c checks, path string) {
	path += ".member"
	switch host := hostName(); {
	case m.Member == "" && host != "":
		c.wrong(path, "is not set, and the name of the host, %q, cannot be used; "+memberAdvice, host)
	case m.Member == "":
		c.missing(path)
	}
}

// Hash returns a digest of what must be the same for all members of a cluster: every key
// but cluster.member, cluster.nats, state, admin and log. It is made from what [Print] shows. So it
// reveals nothing about secrets, and does not change if only a secret, a hidden part of a
// URL, or the content of a file differs. Another version of the bridge may have other
// keys, and so another hash for the same file. It is empty if c cannot be printed, which is
// possible only if c is not valid.
func (c *Config) Hash() string {
	same := *c
	same.State, same.Admin, same.Log = "", Admin{}, Log{}
	if c.Cluster.Enabled() {
		cluster := *c.Cluster
		cluster.Member, cluster.NATS = "", ClusterNATS{}
		same.Cluster = &cluster
	}
	h := sha256.New()
	if err := Print(h, &same); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
