package configs

import (
	"os"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
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
			"cluster.name: is missing; set it, or the variable NDRBRIDGE_CLUSTER_NAME", "cluster.nats: has neither url nor embedded"}},
		{"a name of capitals", strings.Replace(inCluster(""), "prod", "Prod", 1), []string{`cluster.name: "Prod" is not a valid name; write 1 to 32 of a-z, 0-9 and -`}},
		{"a name that is too long", strings.Replace(inCluster(""), "prod", strings.Repeat("a", 33), 1), []string{"is not a valid name"}},
		{"a member that is two words of a subject", inCluster(", member: bridge.1"), []string{`cluster.member: "bridge.1" is not a valid name; write 1 to 63 letters, digits, - and _`}},
		{"a member that is a wildcard", inCluster(`, member: "*"`), []string{`cluster.member: "*" is not a valid name`}},
		{"a member that is too long", inCluster(", member: " + strings.Repeat("a", 64)), []string{"is not a valid name"}},
		{"no replicas", inCluster(", replicas: 0"), []string{"cluster.replicas: is 0; it must be between 1 and 5"}},
		{"too many replicas", inCluster(", replicas: 6"), []string{"cluster.replicas: is 6"}},
		{"a short lease", inCluster(", lease: 1999ms"), []string{"cluster.lease: is 1.999s; it must be at least 2s"}},
		{"archives without a folder", inCluster(", archive: {keep: 1}"), []string{"cluster.archive.folder: is missing"}},
		{"archives too often", inCluster(", archive: {folder: /a, every: 59s}"), []string{"cluster.archive.every: is 59s; it must be at least 1m"}},
		{"archives that are not kept", inCluster(", archive: {folder: /a, keep: 0}"), []string{"cluster.archive.keep: is 0; it must be at least 1"}},
		{"servers of another scheme", strings.Replace(inCluster(""), "nats://n", "http://n", 1), []string{"cluster.nats.url: has a scheme that cannot be used here"}},
		{"two forms of authentication", strings.Replace(inCluster(""), `4222"`, `4222", token: t, username: u, password: p`, 1), []string{"cluster.nats: has several forms of authentication: token and username"}},
		{"a user without a password", strings.Replace(inCluster(""), `4222"`, `4222", username: u`, 1), []string{"cluster.nats.username: is set without password_file"}},
		{"half of a certificate", strings.Replace(inCluster(""), `4222"`, `4222", tls: {cert_file: `+writeFile(t, "c")+`}`, 1), []string{"cluster.nats.tls.cert_file: is set without key_file"}},
		{"a secret's file that is missing", strings.Replace(inCluster(""), `4222"`, `4222", token_file: /none`, 1), []string{"cluster.nats.token_file: /none: no such file"}},
		{"an address without a cluster", "admin: {advertise: 'http://a:9600'}" + valid, []string{"admin.advertise: is set without cluster; leave it out, or set cluster"}},
		{"an address without a scheme", "admin: {advertise: 'a:9600'}\n" + inCluster(""), []string{"admin.advertise: has no scheme; write https://"}},
		{"an address of another scheme", "admin: {advertise: 'nats://a:9600'}\n" + inCluster(""), []string{"admin.advertise: has a scheme that cannot be used here"}},
		{"an address with a path", "admin: {advertise: 'http://a:9600/api/v1'}\n" + inCluster(""), []string{"admin.advertise: has something after the host; write http://a:9600, each request's path is appended"}},
		{"an address with a user", "admin: {advertise: 'http://u:p@a:9600'}\n" + inCluster(""), []string{"admin.advertise: contains a user name; write only scheme and host, and the members have the same token"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(test.file), nil)
			wantErrors(t, err, test.want)
		})
	}
}

func TestCluster(t *testing.T) {
	assert.False(t, parse(t, valid).Cluster.Enabled(), "without cluster, it is enabled")
	archived, err := Parse("/etc/f.yaml", []byte(inCluster(", archive: {folder: archives}")), nil)
	require.NoError(t, err)
	a := archived.Cluster.Archive
	assert.True(t, a.Folder == "/etc/archives" && a.Every.String() == "1d" && a.Keep == 7, "archives", a)
	c := parse(t, inCluster(""), "NDRBRIDGE_CLUSTER_MEMBER=bridge-1", "NDRBRIDGE_CLUSTER_NATS_TOKEN=sesame").Cluster
	assert.True(t, c.Enabled() && c.Name == "prod" && c.Member == "bridge-1" && c.Replicas == 3 && c.Lease.String() == "6s", c)
	n := c.NATS.Connection()
	assert.True(t, n.URL.Value() == "nats://n:4222" && n.Token.IsSet(), "its connection", n)
}

func TestMemberIsTheHostByDefault(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	host, _, _ = strings.Cut(host, ".")
	assert.Equal(t, parse(t, inCluster("")).Cluster.Member, host, "the member", "the host")
}

func TestAdvertise(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	for _, test := range []struct{ name, admin, want string }{
		{"only this host can reach it", "", ""},
		{"the name of the loopback address", "listen: 'localhost:9700'", ""},
		{"every address", "listen: ':9700', token: longenough", "http://" + host + ":9700"},
		{"one address", "listen: '192.0.2.1:9700', token: longenough", "http://" + host + ":9700"},
		{"another one", "advertise: 'https://a.example/'", "https://a.example"},
		{"another port", "listen: ':9700', token: longenough, advertise: 'http://[2001:db8::1]:80'", "http://[2001:db8::1]:80"},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, parse(t, "admin: {"+test.admin+"}\n"+inCluster("")).Advertise(), test.want)
		})
	}
	t.Run("over TLS", func(t *testing.T) {
		c := Config{Admin: Admin{Listen: "[::]:9700", TLS: AdminTLS{CertFile: "c"}}}
		assert.Equal(t, c.Advertise(), "https://"+host+":9700")
	})
}

const clustered = `
cluster: {name: prod, member: a, replicas: 1, nats: {url: "nats://n:4222"}}
state: /s/state.db
events: {heartbeat: 1m}
appliances:
  - {name: d, url: "https://d.example", api_key: k}
  - {name: e, url: "https://e.example", api_key: k}
sinks: [{name: log, file: {path: "-"}, rate_limit: 100}]
tickets: {enabled: true, webhooks: {jira: {secret: secretive}}}
`

func TestHash(t *testing.T) {
	hash := parse(t, clustered).Hash()
	for _, test := range []struct {
		name, old, new string
		same           bool
	}{
		{"the member", "member: a", "member: b", true},
		{"the state", "/s/state.db", "/other", true},
		{"the log", "events: {", "log: {level: debug, format: json}\nevents: {", true},
		{"the admin interface", "events: {", "admin: {listen: '0.0.0.0:1', token: longenough}\nevents: {", true},
		{"a literal secret", "secret: secretive", "secret: another-one", true},
		{"the cluster", "name: prod", "name: test", false},
		{"the replicas", "replicas: 1", "replicas: 2", false},
		{"the servers", "n:4222\"}}\nstate", "m:4222\"}}\nstate", true},
		{"an appliance", "{name: e,", "{name: f,", false},
		{"a sink", "rate_limit: 100", "rate_limit: 101", false},
		{"the heartbeat", "heartbeat: 1m", "heartbeat: 2m", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(clustered, test.old, test.new, 1)
			require.True(t, text != clustered, "nothing was replaced")
			assert.Equal(t, parse(t, text).Hash() == hash, test.same, "the hash is the same")
		})
	}
	config := parse(t, clustered)
	config.Hash()
	assert.Equal(t, config.Cluster.Member, "a", "Hash changed the configuration")
	assert.Equal(t, config.State, "/s/state.db", "Hash changed the configuration")
}
