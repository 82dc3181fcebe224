package docs_test

import (
	"strings"
	"testing"

	"ndrbridge/test/docs"
)

// exclusion is a statement, by its beginning, that does not run in a test.
type exclusion struct {
	statement string
	// because has the reason and what checks it.
	because string
	// instead, if not empty, is run in place of the statement's beginning.
	instead string
}

var excluded = []exclusion{
	{"make test", "it runs this test", "make -n test"},
	{"make lint", "it takes minutes; .ci/run runs it", "make -n lint"},
	{".ci/run", "it runs this test", "bash -n .ci/run"},
	{"make reference", "it takes a minute; tests compare what it generates", "make -n reference"},
	{"make torture", "it takes ten minutes and more; make test runs the same tests with fewer kills and faults", "make -n torture"},
	{"make e2e", "it runs this test", "make -n e2e"},
	{"make page", "it needs a browser; .ci/run runs it", "make -n page"},
	{"make pictures", "it needs a browser and minutes; make lint reads it", "make -n pictures"},
	{"make alerts", "it needs promtool; .ci/run runs it", "make -n alerts"},
	{"make deploy-check", "it installs tools; .ci/run runs it", "make -n deploy-check"},
	{"make bench", "it takes an hour; the tests of test/bench run its parts", "make -n bench"},
	{"go run ./test/bench", "it takes minutes; a test of test/bench reads the flags", "go run ./test/bench --help"},
	{"apt install", "it installs a release; TestThePackageDeliversAsThePageShows does so", ""},
	{"systemctl", "it needs systemd; TestThePackageDeliversAsThePageShows verifies the unit, and deploy/check runs the bridge within its limits", ""},
	{"journalctl", "it needs systemd", ""},
	{"docker", "it needs Docker; tests of deploy load the files of compose, and the workflow builds the image", ""},
	{"kubectl", "it needs a cluster; deploy/check compares the resources with the schemas of Kubernetes", ""},
	{"ndrbridge cluster recover", "it needs NATS servers that lost data; tests of bridge recover", ""},
	{"openssl req", "its subjects look like paths; tests of natsserver use certificates like these", ""},
	{"nats stream", "it needs the command line of NATS, and NATS servers that lost data", ""},
	{"az ", "it needs Azure; tests of deploy/sentinel check the templates", ""},
	{"helm", "it needs a cluster; deploy/check renders the chart and compares it with these schemas", ""},
}

// listening is the address of the bridges whose configuration names none.
const listening = "admin: {listen: 127.0.0.1:9600}\n"

// site is the configuration of a bridge that documents take for granted.
const site = `
state: ./ndrbridge.db
admin: {listen: 127.0.0.1:9600, token_file: /run/secrets/admin-token}
appliances:
- name: hq
  url: https://sensor.example
  api_key_file: /run/secrets/hq
  rate_limit: 1000
  detections: {start: beginning, interval: 100ms}
  audit: {start: beginning, interval: 100ms}
  records: [{name: dns, types: ["~dns"], start: -1d, interval: 100ms}]
  rules: {write: true}
tickets: {enabled: true}
sinks:
- {name: log, file: {path: ./events.jsonl}, start: beginning}
`

// lake is a sink of the site that rejects the audit log.
const lake = `
- {name: lake, webhook: {url: "https://collector.example/lake"}, start: beginning}
`

// members is the rest of the configuration of a cluster's members.
const members = `
appliances:
- name: hq
  url: https://sensor.example
  api_key_file: /run/secrets/hq
  rate_limit: 1000
  detections: {start: beginning, interval: 100ms}
`

func clustered(t *testing.T, d docs.Document) string {
	t.Helper()
	return members + strings.Replace(blockOf(t, d, "cluster:\n  name: prod"), "0.0.0.0:", "127.0.0.1:", 1)
}

// sinksOf returns the sinks of the block of a document that has a text, to be added to those
// of the site.
func sinksOf(t *testing.T, d docs.Document, text string) string {
	t.Helper()
	block := blockOf(t, d, text)
	_, list, whole := strings.Cut("\n"+block, "\nsinks:\n")
	if !whole {
		return block
	}
	var sinks strings.Builder
	for line := range strings.Lines(list) {
		item, ok := strings.CutPrefix(line, "  ")
		if !ok {
			break
		}
		sinks.WriteString(item)
	}
	return sinks.String()
}

// blockOf returns the first block of YAML in a document that has a text.
func blockOf(t *testing.T, d docs.Document, text string) string {
	t.Helper()
	for _, b := range d.Blocks {
		if b.Language == "yaml" && strings.Contains(b.Text, text) {
			return b.Text
		}
	}
	t.Fatalf("%s has no block with %s", d.Path, text)
	return ""
}

func fixed(config string) func(*testing.T, docs.Document) string {
	return func(*testing.T, docs.Document) string { return config }
}

// delivered waits until the bridge has read everything once and delivered it.
const delivered = `
for type in detection audit record; do
	until grep -q "io.ndrbridge.$type" events.jsonl; do sleep 0.05; done
done
`

// confirmed answers the questions that a command asks at a terminal.
var confirmed = []substitution{
	{"ndrbridge state forget", "ndrbridge state forget --yes"},
	{"ndrbridge cluster init --adopt", "ndrbridge cluster init --yes --adopt"},
}

var readings = []reading{
	{document: "docs/quickstart.md", checkout: true},
	{document: "docs/stand-in.md", checkout: true},
	{document: "docs/performance.md", checkout: true, slow: true},
	{document: "CONTRIBUTING.md", checkout: true, slow: true},
	{
		document: "README.md", checkout: true, slow: true, setup: "mv ndrbridge.yaml edited.yaml",
		config: func(t *testing.T, d docs.Document) string { return listening + blockOf(t, d, "appliances:") },
		before: []preparation{{"bin/ndrbridge check", "cp edited.yaml ndrbridge.yaml"}},
	},
	{
		document: "deploy/README.md", checkout: true, config: fixed(site), setup: "touch hq; mkdir /etc/ndrbridge/secrets",
		before: []preparation{
			{"cd deploy/compose", "cd"},
			{"cp ", "cd"},
			{"ndrbridge state backup", "cd; printf a-token >admin-token; start"},
		},
	},
	{document: "deploy/splunk/README.md", checkout: true},
	{document: "deploy/sentinel/README.md"},
	{
		document: "deploy/elastic/README.md", checkout: true, slow: true, setup: `
cd deploy/elastic
ES=https://es.example:9200 KIBANA=https://es.example:9200 KEY=a-key
OS=https://os.example:9200 LOGIN=admin:a-password
stored='-fsS -H Content-Type:application/json -d {} -o document'
`,
		before: []preparation{
			{`curl -fsS -X POST -H "Authorization: ApiKey $KEY" "$ES/_transform`, `curl $stored -H "Authorization: ApiKey $KEY" "$ES/logs-ndrbridge.detection-default/_doc"`},
			{`curl -fsS -u "$LOGIN"`, `curl $stored -u "$LOGIN" "$OS/logs-ndrbridge.detection-default/_doc"`},
		},
	},
	{document: "docs/guarantees.md", checkout: true, config: fixed(site), setup: "start" + delivered},
	startOf("splunk-and-slack", "--value splunk_hec.url=https://127.0.0.1:8088 --secret-file splunk_hec=key --secret-file slack=url"),
	startOf("elastic", "--value elasticsearch.url=https://es.example:9200 --secret-file elasticsearch=key"),
	startOf("sentinel", "--value sentinel.url=https://h --value sentinel.rule_id=dcr-11111111111111111111111111111111 --value sentinel.token_url=https://h --value sentinel.client_id=id --secret-file sentinel=key"),
	startOf("kafka", "--value kafka.brokers=127.0.0.1:9092"),
	startOf("nats", "--value nats.url=nats://127.0.0.1:4222"),
	startOf("jira", "--value jira.url=https://corp.atlassian.net --value jira.username=bridge@corp.example --secret-file jira=key"),
	startOf("pagerduty", "--secret-file pagerduty=key"),
	{document: "docs/testing.md", config: fixed(site), setup: "start" + delivered},
	{document: "docs/runbook.md", config: fixed(site), setup: "start" + delivered},
	{document: "docs/operations.md", config: fixed(site + lake), setup: "start" + delivered, before: []preparation{
		{"ndrbridge state compact", "stop"},
		{"ndrbridge state backup", "start"},
		{"NDRBRIDGE_APPLIANCES_0_DETECTIONS_START=", "stop; rm ndrbridge.db"},
		{"ndrbridge state rename lake", "stop; sed -i 's/name: lake/name: datalake/' ndrbridge.yaml"},
		{"ndrbridge state forget lake", "sed -i 's/name: datalake/name: soc/' ndrbridge.yaml; ndrbridge state rename datalake lake"},
	}, typed: confirmed},
	{
		document: "docs/sinks.md", checkout: true, slow: true, setup: "start" + delivered,
		config: func(t *testing.T, d docs.Document) string {
			return site + sinksOf(t, d, "name: lake               #") + sinksOf(t, d, "name: tickets")
		},
	},
	{
		document: "docs/api.md", config: fixed(site + lake), slow: true, setup: "start" + delivered,
	},
	{
		document: "docs/tickets.md", slow: true, setup: "start" + delivered + `
curl -fsS -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \
	-d '{"ticket_id": "GONE-9", "status": "closed"}' http://127.0.0.1:9600/api/v1/tickets
` + rejected,
		config: func(t *testing.T, d docs.Document) string { return site + sinksOf(t, d, "system: jira\n") },
		before: []preparation{{"ndrbridge tickets drop", rejected}},
		typed: []substitution{
			{"17", "$(ndrbridge tickets list --status rejected --json | jq -s '.[0].id')"},
			{"25769804127", "$(ndrbridge tail --since beginning --stream detections --no-follow --json | jq -s '.[0].data.detection.id')"},
		},
	},
	{
		document: "docs/cluster.md", slow: true, config: clustered,
		setup: single,
		before: []preparation{
			{"ndrbridge cluster status", "start"},
			{"ndrbridge cluster init --adopt", "stop; sed -i 's/name: prod/name: other/; s/^state:.*/state: other.db/' ndrbridge.yaml"},
			{"ndrbridge cluster export /var/lib/ndrbridge/single.db", "start"},
			{"ndrbridge cluster export single.db", "stop; cp other.db /var/lib/ndrbridge/state.db"},
		},
		typed: confirmed,
	},
	ofCluster,
	ofBridge,
}

// startOf is the reading of a page in docs/start, with flags for what is asked on a terminal.
func startOf(page, flags string) reading {
	return reading{
		document: "docs/start/" + page + ".md",
		setup: "mkdir /etc/ndrbridge/secrets; echo a-long-key >key; echo https://hooks.slack.com/a-hook >url\n" +
			"export NDRBRIDGE_CONFIG=/etc/ndrbridge/ndrbridge.yaml FLAGS='--appliance https://sensor.example --api-key-file key " + flags + "'",
		typed: []substitution{{"--force", "--force \\$FLAGS"}, {"check --connect", "check"}, {"ndrbridge send", "ndrbridge send --help #"}},
	}
}

// single runs a bridge alone, with the configuration of the members otherwise but one poll,
// until it has delivered everything.
const single = `
cp ndrbridge.yaml members.yaml
sed -e '1,$ { /^cluster:/,/nats:\/\//d }' -e '/creds_file:/d' -e 's/^state:.*/state: ndrbridge.db/' -e 's/path:.*/path: events.jsonl}/' -e 's/interval: 100ms/interval: 1h/' members.yaml >ndrbridge.yaml
start
until grep -q detection events.jsonl && ndrbridge status --json | jq -e 'all(.sinks[]; .lag_events == 0)' >/dev/null; do sleep 0.05; done
stop
mkdir -p /var/lib/ndrbridge
mv ndrbridge.db /var/lib/ndrbridge/
cp members.yaml ndrbridge.yaml
`

// rejected waits until a ticket command is rejected: one for GONE-9, which no detection has.
const rejected = `
until [ -n "$(ndrbridge tickets list --status rejected --json)" ]; do sleep 0.05; done
`
