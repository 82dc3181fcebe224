package configs

import (
	"os"
	"strings"
)

// Cluster makes the bridge a member of a cluster: several bridges with the same
// configuration share the appliances, and take over from each other. Their state is
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
	// Member identifies this bridge among the members: 1 to 63 letters, digits, - and _, not
	// digits alone. It must be unique, and stay the same over restarts. Absent: the name of
	// the host, up to its first dot.
	Member string      `yaml:"member" form:"member"`
	NATS   ClusterNATS `yaml:"nats"`
	// Shards is the number of parts that the appliances are divided into. Each part has one
	// owner at a time, which polls its appliances and delivers their events. It is
	// fixed when the cluster is created. Each shard connects to each sink.
	Shards int `yaml:"shards" default:"16" min:"1" max:"100"`
	// Replicas is the number of NATS servers that store each stream. 3 survives the loss of
	// one server, 5 of two; use 1 for tests only.
	Replicas int `yaml:"replicas" default:"3" min:"1" max:"5"`
	// Lease is how long a member owns a shard after its last write to NATS. If a member
	// fails, another one takes its shards after a quarter more than this.
	Lease Duration `yaml:"lease" default:"6s" min:"2s"`
}

// Enabled reports whether the bridge is a member of a cluster. c may be nil.
func (c *Cluster) Enabled() bool { return c != nil }

// ClusterNATS configures the connection to the NATS servers that store the cluster's
// state. They must sync each write to disk (sync_interval: always). At most one form of
// authentication may be set, as for the sink.
type ClusterNATS struct {
	// URL is the URL of a server, or of several, separated by commas: nats or tls.
	URL URL `yaml:"url" required:"true" schemes:"nats,tls" several:"true"`
	NATSLogin
}

// Connection returns the configuration of a sink that connects to the same servers.
func (n ClusterNATS) Connection() NATS {
	return NATS{URL: n.URL, NATSLogin: n.NATSLogin}
}

// A member's name is a part of NATS subjects and of keys in NATS buckets; commands take digits
// for the number of a shard.
const (
	maxMember    = 63
	memberAdvice = "write 1 to 63 letters, digits, - and _, not digits alone"
)

// hostName returns the name of the host up to its first dot, or "" if it is unknown.
func hostName() string {
	host, _ := os.Hostname()
	name, _, _ := strings.Cut(host, ".")
	return name
}

// clusterDefaults sets the member's name to that of the host, if that can be used.
func clusterDefaults(config *Config) {
	host := hostName()
	if config.Cluster.Enabled() && config.Cluster.Member == "" && len(host) <= maxMember && forms["member"].pattern().MatchString(host) {
		config.Cluster.Member = host
	}
}

func (m *Cluster) check(c checks, path string) {
	path += ".member"
	switch host := hostName(); {
	case m.Member == "" && host != "":
		c.wrong(path, "is not set, and the name of the host, %q, cannot be used; "+memberAdvice, host)
	case m.Member == "":
		c.missing(path)
	case len(m.Member) > maxMember && forms["member"].pattern().MatchString(m.Member): // else reported by the form tag
		c.wrong(path, "%q is not a valid name; "+memberAdvice, m.Member)
	}
}

// shardPlaceholder stands for the number of a shard in the paths of file sinks.
const shardPlaceholder = "{shard}"

func (f *File) check(c checks, path string) {
	path += ".path"
	has, clustered := strings.Contains(f.Path, shardPlaceholder), c.config.Cluster.Enabled()
	switch {
	case f.Path == "" || f.Path == "-":
	case clustered && !has:
		c.wrong(path, "has no %s, which a cluster requires: each shard writes a file of its own; write for example events-%[1]s.jsonl", shardPlaceholder)
	case !clustered && has:
		c.wrong(path, "has %s, which requires cluster; remove it, or set cluster", shardPlaceholder)
	case has && absolute(f.Path) == absolute(c.config.State+"."+shardPlaceholder):
		c.wrong(path, "is the state file of a shard; choose another path")
	}
}
