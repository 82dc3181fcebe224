package preflight_test

import (
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/finding"
	"ndrbridge/test/assert"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/loopback"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

func TestCheckReportsMissingRights(t *testing.T) {
	t.Parallel()
	rights := replicatedtest.Permissions("prod")
	reported := append([]string{"$SYS.REQ.USER.INFO"}, rights.Publish.Allow...)
	for name, test := range map[string]struct {
		allow []string
		want  findingtest.Row
	}{
		"all that are documented":    {reported, findingtest.Row{Result: finding.OK, Detail: "may publish what a member sends"}},
		"those of another cluster":   {append([]string{"$SYS.REQ.USER.INFO"}, replicatedtest.Permissions("test").Publish.Allow...), findingtest.Row{Result: finding.Failed, Detail: "may not publish to ndr.prod.>", Advice: "docs/cluster.md"}},
		"the server reports nothing": {rights.Publish.Allow, findingtest.Row{Result: finding.Untried, Detail: "does not report"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := loopback.NATS(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "ana", Password: "sesame", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: test.allow}}}}
			})
			test.want.Step = "permissions"
			findingtest.Expect(t, ofCluster(t, `replicas: 1, nats: {url: "nats://`+s.Addr().String()+`", username: ana, password: sesame}`), test.want)
		})
	}
}

func TestDocumentsHaveTheRights(t *testing.T) {
	text := require.Value(os.ReadFile("../../docs/cluster.md"))(t)
	assert.Contains(t, string(text), "```text\n"+replicated.Rights+"```", "docs/cluster.md has other rights")
}
