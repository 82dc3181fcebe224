package docs_test

import "strings"

// isOfCluster reports whether a statement needs a cluster.
func isOfCluster(s statement) bool { return strings.HasPrefix(s.text, "ndrbridge cluster") }

// ofCluster and ofBridge are the readings of the examples in the reference of commands.
var ofCluster = reading{
	document: "docs/commands.md", slow: true, part: isOfCluster,
	config: fixed(listening + members + clusterOfThree),
	setup:  single + both,
	before: []preparation{
		{"ndrbridge cluster handover", both},
		{"ndrbridge cluster export single.db", stopped + "cp ndrbridge.db /var/lib/ndrbridge/state.db"},
		{"ndrbridge cluster init", stopped + "sed -i 's/name: prod/name: new/; s/ndrbridge.db/new.db/' ndrbridge.yaml"},
		{"ndrbridge cluster init --adopt", "sed -i 's/name: new/name: other/; s/new.db/other.db/' ndrbridge.yaml"},
		{"ndrbridge cluster status", both},
	},
	typed: confirmed,
}

var ofBridge = reading{
	document: "docs/commands.md", slow: true,
	config: fixed(site + lake + others),
	setup: `
cp ndrbridge.yaml saved.yaml
cp /run/secrets/certificate ca.pem
cat >tests.yaml <<'END'
tests:
  - name: high risk goes to the chat
    events:
      - fixture: detection.created
        set: {risk_score: 95, title: Data Exfiltration}
    sinks: [log, lake, soc, chat, tickets, pager]
    output:
      chat: {contains: [Data Exfiltration]}
END
mkdir tests
cp tests.yaml tests/chat.yaml
start` + delivered,
	before: []preparation{
		{"ndrbridge completion zsh", `fpath=(unused "$PWD")`},
		{"ndrbridge completion fish", "mkdir -p ~/.config/fish/completions"},
		{"ndrbridge config new", "rm -f ndrbridge.yaml"},
		{"ndrbridge config print", "cp saved.yaml ndrbridge.yaml"},
		{"ndrbridge dead", `until [ -n "$(ndrbridge dead list lake --json)" ]; do sleep 0.05; done`},
		{"ndrbridge status --exit-code --admin https", `
sed 's/events.jsonl/tls.jsonl/' saved.yaml >tls.yaml
NDRBRIDGE_STATE=tls.db NDRBRIDGE_ADMIN_LISTEN=ndr.example:9600 NDRBRIDGE_ADMIN_TLS_CERT_FILE=/run/secrets/certificate \
	NDRBRIDGE_ADMIN_TLS_KEY_FILE=/run/secrets/certificate ndrbridge run --config tls.yaml >tls.log 2>&1 &
until ndrbridge status --exit-code --admin https://ndr.example:9600 --ca-file ca.pem 2>/dev/null; do
	kill -0 $! || { cat tls.log; return 1; }
	sleep 0.05
done
`},
		{"ndrbridge rule end", hideAnother},
		{"ndrbridge rule extend 12 --for 48h", hideAnother},
		{"ndrbridge run", "stop"},
		{"ndrbridge state show", again},
		{"ndrbridge state backup", "rm -f /var/backups/ndrbridge.db"},
		{"ndrbridge state rename lake", again + "stop; sed -i 's/name: lake/name: datalake/' ndrbridge.yaml"},
		{"ndrbridge state compact", again + "stop"},
		{"ndrbridge state forget lake", again + "stop; sed -i '/name: lake/d' ndrbridge.yaml"},
		{"ndrbridge status", again},
		{"ndrbridge tickets", `
for n in 1 2; do curl -fsS -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \
	-d '{"ticket_id": "GONE-9", "status": "closed"}' http://127.0.0.1:9600/api/v1/tickets; done
` + rejected},
	},
	typed: append([]substitution{
		{"ndrbridge dead requeue lake --all", "ndrbridge dead requeue lake --all --yes"},
		{"ndrbridge replay lake soc", "ndrbridge replay lake soc --yes"},
		{"rewind hq detections --to -2h\n", "rewind hq detections --to -2h --yes"},
		{"25769803779", detection},
		{"end 12", "end " + rule},
		{"extend 12", "extend " + rule},
		{"00000000000000001234", "$(ndrbridge dead list lake --json | jq -r .key | head -n 1)"},
		{"retry 17 18", "retry $(ndrbridge tickets list --status rejected --json | jq -r .id | head -n 2 | tr '\n' ' ')"},
		{"retry 17", "retry $(ndrbridge tickets list --status rejected --json | jq -r .id | head -n 1)"},
		{"show 17", "show $(ndrbridge tickets list --status rejected --json | jq -r .id | head -n 1)"},
		{"drop 17", "drop $(ndrbridge tickets list --status rejected --json | jq -r .id | head -n 1)"},
	}, confirmed...),
}

// detection and rule are the ids of a detection that was delivered, and of the last rule that was made.
// hideAnother hides another detection each time, since one that a rule hides cannot be hidden again.
const (
	detection   = "$(jq -r 'select(.source == \"ndrbridge://hq/detections\").subject' events.jsonl | head -n 1)"
	hideAnother = `
another=$((another + 1))
ndrbridge hide $(jq -r 'select(.source == "ndrbridge://hq/detections").subject' events.jsonl | sort -ru | sed -n ${another}p) --for 12h || return 1
until [ $(jq -c 'select(.data.rule.action == "hide")' events.jsonl | wc -l) -gt $another ]; do sleep 0.05; done
`
	rule = "$(jq -r 'select(.data.rule.action == \"hide\").data.rule.id' events.jsonl | tail -n 1)"
)

// clusterOfThree is a cluster with its state in three NATS servers.
const clusterOfThree = `
cluster:
  name: prod
  nats: {url: "nats://nats-1.example:4222,nats://nats-2.example:4222,nats://nats-3.example:4222"}
state: ./ndrbridge.db
sinks:
- name: archive
  file: {path: ./events.jsonl}
`

// stopped stops both members.
const stopped = `
{ stop; kill $second; wait $second; true; } 2>/dev/null
`

// both starts two members and waits until one owns the log and the other one follows it.
const both = stopped + `
cp members.yaml ndrbridge.yaml
export NDRBRIDGE_CLUSTER_MEMBER=bridge-1 NDRBRIDGE_ADMIN_ADVERTISE=http://127.0.0.1:9600
for try in $(seq 30); do [ -f created ] && break; ndrbridge cluster init && touch created || sleep 1; done; [ -f created ] || return 1
start
NDRBRIDGE_CLUSTER_MEMBER=bridge-2 NDRBRIDGE_STATE=second.db NDRBRIDGE_ADMIN_LISTEN=second.example:9600 NDRBRIDGE_ADMIN_ADVERTISE=http://second.example:9600 ndrbridge run >second.log 2>&1 &
second=$!
until ndrbridge cluster status --json | jq -e '.owner != null and ([.members[] | select(.ready)] | length) == 2' >/dev/null; do
	kill -0 $bridge $second || { cat bridge.log second.log; return 1; }
	sleep 0.1
done
`

// others are further sinks of the site, which the reference names.
const others = `
- {name: soc, webhook: {url: "https://collector.example/soc"}, start: beginning}
- {name: chat, webhook: {preset: slack, url: "https://hooks.slack.com/services/T0/B0/x"}, match: detection.risk_score >= 80}
- {name: pager, webhook: {preset: pagerduty, url: "https://tickets.example/pager", key: a-key}, match: detection.risk_score >= 80}
- {name: tickets, webhook: {url: "https://tickets.example/in", template: '{"title": {{json .detection.title}}}'}, match: detection.risk_score >= 80}
`

// again starts the bridge with the whole configuration, whether it runs or not and whether
// lake was renamed or not, and waits until lake has received everything.
const again = `
{ stop || true; } 2>/dev/null
cp saved.yaml ndrbridge.yaml
ndrbridge state rename datalake lake 2>/dev/null || true
start
until ndrbridge status --json | jq -e '.sinks | any(.name == "lake" and .lag_events == 0)' >/dev/null; do sleep 0.05; done
`
