package configs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

// embedded returns a file of a member that runs a NATS server, and the folder of its
// certificates. The file's keys of the server are replaced by those in keys.
func embedded(t *testing.T, keys ...string) (file, folder string) {
	t.Helper()
	folder = t.TempDir()
	cert, key := certificate.Files(t, folder, "member", certificate.New(t, "a.example", time.Now().Add(time.Hour), nil))
	file = fmt.Sprintf(`
cluster:
  name: prod
  nats:
    embedded:
      peers: ["a.example:6222", "b.example:6222", "c.example:6222"]
      tls: {cert_file: %q, key_file: %q, ca_file: %[1]q}
`, cert, key) + valid
	for i := 0; i < len(keys); i += 2 {
		require.True(t, strings.Contains(file, keys[i]), "the file has no", keys[i])
		file = strings.Replace(file, keys[i], keys[i+1], 1)
	}
	return file, folder
}

func TestErrorsOfAnEmbeddedServer(t *testing.T) {
	const peers = `["a.example:6222", "b.example:6222", "c.example:6222"]`
	for _, test := range []struct {
		name string
		keys []string // replaced, and with what
		want []string
	}{
		{"no peers", []string{"peers: " + peers, "listen: ':6222'"}, []string{"cluster.nats.embedded.peers: is missing; set it"}},
		{"two members", []string{`, "c.example:6222"]`, "]"}, []string{"cluster.nats.embedded.peers: has 2 of at least 3 members; write the addresses of all members, this one included"}},
		{"fewer members than replicas", []string{"name: prod", "name: prod\n  replicas: 5"}, []string{"peers: has 3 of at least 5 members"}},
		{"a member twice", []string{"b.example", "a.example"}, []string{`peers[1]: "a.example:6222" is also cluster.nats.embedded.peers[0]; write each member once`}},
		{"a peer without a port", []string{"b.example:6222", "b.example"}, []string{`peers[1]: "b.example" is not an address; write host:port, usually with port 6222`}},
		{"no port to listen on", []string{"tls:", "listen: 0.0.0.0\n      tls:"}, []string{`embedded.listen: "0.0.0.0" is not an address`}},
		{"an address that others cannot reach", []string{"tls:", "listen: 127.0.0.1:6222\n      tls:"}, []string{"embedded.listen: 127.0.0.1:6222 cannot be reached by the other members; listen on an address of the network"}},
		{"no certificates", []string{"tls: {", "# {"}, []string{"tls.cert_file: is missing", "tls.key_file: is missing", "tls.ca_file: is missing"}},
		{"servers of both kinds", []string{"nats:", "nats:\n    url: nats://n:4222\n    token: t"}, []string{"cluster.nats: has embedded, and also url and token, which is for servers of your own; keep one"}},
		{"no servers", []string{"embedded:", "other:"}, []string{"cluster.nats.other: is not a known key", "cluster.nats: has neither url nor embedded; set url to use NATS servers of your own, or embedded to let each member run one"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, _ := embedded(t, test.keys...)
			_, err := Parse("f.yaml", []byte(file), nil)
			wantErrors(t, err, test.want)
		})
	}
	t.Run("the wrong files", func(t *testing.T) {
		file, folder := embedded(t, "member.key", "member.crt")
		_, err := Parse("f.yaml", []byte(file), nil)
		wantErrors(t, err, []string{"embedded.tls.cert_file: " + folder + "/member.crt cannot be used with key_file"})
	})
}

func TestEmbeddedServer(t *testing.T) {
	file, folder := embedded(t)
	c := parse(t, file)
	e := c.Cluster.NATS.Embedded
	assert.True(t, e.Listen == "0.0.0.0:6222" && len(e.Peers) == 3 && e.Folder == c.State+".nats", e, "the state", c.State)
	moved, _ := embedded(t, "tls:", "listen: ':7000'\n      folder: nats\n      tls:")
	path := filepath.Join(folder, "f.yaml")
	other, err := Parse(path, []byte(moved), nil)
	require.NoError(t, err)
	assert.Equal(t, other.Cluster.NATS.Embedded.Folder, filepath.Join(folder, "nats"), "the folder is")
	assert.Equal(t, c.Hash(), other.Hash(), "another address and other files of a member change the hash")
}
