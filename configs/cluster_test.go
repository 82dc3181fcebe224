package configs

import (
	"os"
	"strings"
	"testing"
)

// inCluster is a file with more keys in its cluster.
func inCluster(keys string) string {
	return `cluster: {name: prod, nats: {url: "nats://n:4222"}` + keys + "}" + valid
}

func TestErrorsOfACluster(t *testing.T) {
	for _, test := range []struct {
		name, file string
		want       []string // one error each: what its line contains
	}{
		{"an empty block", "cluster:" + valid, []string{"f.yaml:1:9: cluster: is empty; write {}"}},
		{"a block without keys", "cluster: {}" + valid, []string{
			"cluster.name: is missing; set it, or the variable NDRBRIDGE_CLUSTER_NAME", "cluster.nats.url: is missing"}},
		{"a name of capitals", strings.Replace(inCluster(""), "prod", "Prod", 1), []string{`cluster.name: "Prod" is not a valid name; write 1 to 32 of a-z, 0-9 and -`}},
		{"a name that is too long", strings.Replace(inCluster(""), "prod", strings.Repeat("a", 33), 1), []string{"is not a valid name"}},
		{"a member that is two words of a subject", inCluster(", member: bridge.1"), []string{`cluster.member: "bridge.1" is not a valid name; write 1 to 63 letters, digits, - and _`}},
		{"a member that is a wildcard", inCluster(`, member: "*"`), []string{`cluster.member: "*" is not a valid name`}},
		{"a member that looks like a shard", inCluster(`, member: "03"`), []string{`cluster.member: "03" is not a valid name`}},
		{"no shards", inCluster(", shards: 0"), []string{"cluster.shards: is 0; it must be between 1 and 100"}},
		{"too many shards", inCluster(", shards: 101"), []string{"cluster.shards: is 101; it must be between 1 and 100"}},
		{"no replicas", inCluster(", replicas: 0"), []string{"cluster.replicas: is 0; it must be between 1 and 5"}},
		{"too many replicas", inCluster(", replicas: 6"), []string{"cluster.replicas: is 6"}},
		{"a short lease", inCluster(", lease: 1999ms"), []string{"cluster.lease: is 1.999s; it must be at least 2s"}},
		{"servers of another scheme", strings.Replace(inCluster(""), "nats://n", "http://n", 1), []string{"cluster.nats.url: has a scheme that cannot be used here"}},
		{"two forms of authentication", strings.Replace(inCluster(""), `4222"`, `4222", token: t, username: u, password: p`, 1), []string{"cluster.nats: has several forms of authentication: token and username"}},
		{"a user without a password", strings.Replace(inCluster(""), `4222"`, `4222", username: u`, 1), []string{"cluster.nats.username: is set without password_file"}},
		{"half of a certificate", strings.Replace(inCluster(""), `4222"`, `4222", tls: {cert_file: `+writeFile(t, "c")+`}`, 1), []string{"cluster.nats.tls.cert_file: is set without key_file"}},
		{"a secret's file that is missing", strings.Replace(inCluster(""), `4222"`, `4222", token_file: /none`, 1), []string{"cluster.nats.token_file: /none: no such file"}},
		{"one file for all shards", strings.Replace(inCluster(""), `"-"`, "events.jsonl", 1), []string{"sinks[0].file.path: has no {shard}, which a cluster requires: each shard writes a file of its own; write for example events-{shard}.jsonl"}},
		{"the state files as a sink", strings.Replace(inCluster(""), `"-"`, `"ndrbridge.db.{shard}"`, 1), []string{"sinks[0].file.path: is the state file of a shard"}},
		{"a file for each shard of no cluster", sink(`file: {path: "events-{shard}.jsonl"}`), []string{"sinks[0].file.path: has {shard}, which requires cluster; remove it, or set cluster"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(test.file), nil)
			wantErrors(t, err, test.want)
		})
	}
}

func TestCluster(t *testing.T) {
	if parse(t, valid).Cluster.Enabled() {
		t.Error("without cluster, it is enabled")
	}
	c := parse(t, inCluster(""), "NDRBRIDGE_CLUSTER_MEMBER=bridge-1", "NDRBRIDGE_CLUSTER_NATS_TOKEN=sesame").Cluster
	if !c.Enabled() || c.Name != "prod" || c.Member != "bridge-1" || c.Shards != 16 || c.Replicas != 3 || c.Lease.String() != "6s" {
		t.Errorf("got %+v", c)
	}
	if n := c.NATS.Connection(); n.URL.Value() != "nats://n:4222" || !n.Token.IsSet() {
		t.Errorf("its connection is %+v", n)
	}
}

func TestMemberIsTheHostByDefault(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	if member := parse(t, inCluster("")).Cluster.Member; member != host {
		t.Errorf("the member is %q, the host %q", member, host)
	}
}
