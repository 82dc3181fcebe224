package configs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// valid is the smallest file; the tests put more above it.
const valid = `
appliances: [{name: hq, url: "https://sensor.example", api_key: k}]
sinks: [{name: log, file: {path: "-"}}]
`

// appliance and sink are files with more keys in their one appliance and sink.
func appliance(keys string) string {
	return strings.Replace(valid, "name: hq", "name: hq, "+keys, 1)
}

func sink(keys string) string {
	return "appliances: [{name: hq, url: \"https://sensor.example\", api_key: k}]\nsinks: [{name: s, " + keys + "}]"
}

func TestParseErrors(t *testing.T) {
	key := writeFile(t, "k")
	for _, test := range []struct {
		name, file string
		want       []string // one error each: what its line contains
	}{
		// Reading.
		{"an unknown key", "logs: {}" + valid, []string{"f.yaml:1:1: logs: is not a known key; did you mean log?"}},
		{"an unknown key within", "log:\n  levl: info" + valid, []string{"f.yaml:2:3: log.levl: is not a known key; did you mean level?"}},
		{"an unknown file variant", "admin: {token_fil: x}" + valid, []string{"admin.token_fil: is not a known key; did you mean token_file?"}},
		{"an unknown key like none", "weather: {enabled: true}" + valid, []string{"f.yaml:1:1: weather: is not a known key"}},
		{"an unknown key of an item", sink(`file: {path: "-"}, matches: x`), []string{"f.yaml:2:38: sinks[0].matches: is not a known key"}},
		{"a key set twice", "state: a\nstate: b" + valid, []string{"f.yaml:2:1: state: is set twice, first on line 1"}},
		{"a merge", "log: {<<: {level: info}}" + valid, []string{"log.<<: is not a known key; merging"}},
		{"text for keys", "log: info" + valid, []string{"f.yaml:1:6: log: expected keys with values, found text"}},
		{"a list for text", "state: [a]" + valid, []string{"f.yaml:1:8: state: expected text, found a list"}},
		{"text for a list", sink(`kafka: {brokers: "a:1"}`), []string{"f.yaml:2:36: sinks[0].kafka.brokers: expected a list, found text"}},
		{"keys for an item of a list", sink(`kafka: {brokers: [{a: 1}]}`), []string{"sinks[0].kafka.brokers[0]: expected text, found keys with values"}},
		{"text for a number", appliance("unreachable_after: three"), []string{"appliances[0].unreachable_after: expected a whole number, found text"}},
		{"a fraction for a whole number", appliance("unreachable_after: 1.5"), []string{"expected a whole number, found a number"}},
		{"a number that is too large", appliance("unreachable_after: 9999999999"), []string{`"9999999999" is not a whole number that fits 32 bits`}},
		{"text for a truth", appliance("detections: {enabled: yes}"), []string{"appliances[0].detections.enabled: expected true or false, found text"}},
		{"no option", sink("kafka: ~"), []string{"sinks[0].kafka: is empty; write {}"}},
		{"a bad duration", "shutdown_timeout: 20" + valid, []string{`f.yaml:1:19: shutdown_timeout: "20" needs a unit`}},
		{"a bad size", "journal: {max_bytes: 2GB}" + valid, []string{`f.yaml:1:22: journal.max_bytes: "2GB" is not a size`}},
		{"a bad start", sink(`file: {path: "-"}, start: tomorrow`), []string{`sinks[0].start: "tomorrow" is not a valid start: write now, -2h or`}},
		{"a list as a file", "[a, b]", []string{"f.yaml:1:1: expected keys with values, found a list"}},
		{"a file that is not YAML", "state: a\n  log: b", []string{"f.yaml:2:3: is not YAML: is indented by 2, but the lines above it by 0 spaces"}},
		{"two documents", valid + "---\nstate: a", []string{"a second document begins here"}},
		{"several at once", "state: [a]\nlogs: {}\nshutdown_timeout: 5\njournal: {max_bytes: 1MiB}" + valid, []string{
			"f.yaml:1:8: state:", "f.yaml:2:1: logs:", "f.yaml:3:19: shutdown_timeout:", "f.yaml:4:22: journal.max_bytes:",
		}},

		// What is missing.
		{"nothing at all", "", []string{"appliances: has no appliances", "sinks: has no sinks"}},
		{"no appliance", `sinks: [{name: log, file: {path: "-"}}]`, []string{"f.yaml:1:1: appliances: has no appliances"}},
		{"no sink", "sinks: []\n" + strings.SplitAfter(valid, "\n")[1], []string{"f.yaml:1:8: sinks: has no sinks"}},
		{"an empty appliance", "appliances: [{}]\n" + strings.Split(valid, "\n")[2], []string{
			"f.yaml:1:14: appliances[0].name: is missing; set it, or the variable NDRBRIDGE_APPLIANCES_0_NAME",
			"appliances[0].url: is missing", "appliances[0]: has no credentials",
		}},

		// The bridge.
		{"no state", `state: ""` + valid, []string{"state: is missing"}},
		{"an unknown level", "log: {level: warning}" + valid, []string{`log.level: "warning" is not one of debug, info, warn, error`}},
		{"an unknown format", `log: {format: ""}` + valid, []string{"log.format: is empty; write one of text, json"}},
		{"no time to stop", "shutdown_timeout: 0" + valid, []string{"shutdown_timeout: is 0s; it must be above 0"}},
		{"no address", "admin: {listen: 9600}" + valid, []string{`admin.listen: "9600" is not an address`}},
		{"a port that is none", "admin: {listen: 'localhost:99999'}" + valid, []string{"is not an address"}},
		{"an open address without a token", "admin: {listen: ':9600'}" + valid, []string{"f.yaml:1:17: admin.listen: :9600 can be reached from other hosts; set admin.token_file"}},
		{"the same token for reading and for all", "admin: {token: r, read_token: r}" + valid, []string{"admin.read_token: is the same as that of admin.token"}},
		{"an open address with a token for reading only", "admin: {listen: ':9600', read_token: reading-only}" + valid, []string{"admin.listen: :9600 can be reached", "admin.read_token: is set without token"}},
		{"an open address with secrets that can be guessed", "admin: {listen: ':9600', token: sesame7, read_token: r}\ntickets: {enabled: true, webhooks: {jira: {secret: sesame7}, generic: [{name: g, secret: longenough}]}}" + valid, []string{
			"admin.token: has less than 8 characters", "admin.read_token: has less than 8 characters", "tickets.webhooks.jira.secret: has less than 8 characters"}},
		{"a certificate without its key", "admin: {tls: {cert_file: " + key + "}}" + valid, []string{"admin.tls.cert_file: is set without key_file"}},
		{"a key without its certificate", "admin: {tls: {key_file: " + key + "}}" + valid, []string{"admin.tls.key_file: is set without cert_file"}},
		{"client certificates without HTTPS", "admin: {listen: ':9600', tls: {client_ca_file: " + key + "}}" + valid, []string{"admin.tls.client_ca_file: is set without cert_file", "contains no PEM certificate"}},
		{"HTTPS with files that are not PEM", "admin: {tls: {cert_file: " + key + ", key_file: " + key + ", client_ca_file: " + key + "}}" + valid, []string{
			"f.yaml:1:26: admin.tls.cert_file: " + key + " cannot be used with key_file: failed to find any PEM data in certificate input; write a PEM certificate",
			"admin.tls.client_ca_file: " + key + " contains no PEM certificate"}},
		{"a small journal", "journal: {max_bytes: 15MiB}" + valid, []string{"journal.max_bytes: is 15MiB; it must be at least 16MiB"}},
		{"a negative time", "journal: {retain: -1h}" + valid, []string{"journal.retain: is -1h; it must be 0 or more"}},

		{"a sink to notify that is not there", "notify: [lo, log, 'off']" + valid, []string{`f.yaml:1:10: notify[0]: there is no sink "lo"`, `notify[2]: there is no sink "off"`}},

		// Appliances.
		{"a bad name", strings.Replace(valid, "hq", "HQ", 1), []string{`appliances[0].name: "HQ" is not a valid name`}},
		{"a reserved name", strings.Replace(valid, "hq", "bridge", 1), []string{"choose another name"}},
		{"a name twice", "appliances: [{name: a, url: 'https://a', api_key: k}, {name: a, url: 'https://b', api_key: k}]\n" + strings.Split(valid, "\n")[2],
			[]string{`f.yaml:1:62: appliances[1].name: "a" is also the name of appliances[0]`}},
		{"a path in the address", strings.Replace(valid, "sensor.example", "sensor.example/api/v1", 1), []string{"appliances[0].url: has something after the host; write https://sensor.example, /api/v1 is appended"}},
		{"a query in the address", strings.Replace(valid, "sensor.example", "sensor.example?a=b", 1), []string{"has something after the host"}},
		{"a user in the address", strings.Replace(valid, "sensor.example", "u:p@sensor.example", 1), []string{"contains a user name"}},
		{"another scheme", strings.Replace(valid, "https:", "ftp:", 1), []string{"write one of https, http"}},
		{"no scheme", strings.Replace(valid, "https://", "", 1), []string{"has no scheme; write https:// and the host"}},
		{"two ways to sign in", appliance("oauth: {token_url: 'https://t', client_id: i, client_secret: s}"), []string{"appliances[0]: has both api_key and oauth"}},
		{"half an oauth", strings.Replace(valid, "api_key: k", "oauth: {client_id: i}", 1), []string{"oauth.token_url: is missing", "oauth.client_secret_file: is missing"}},
		{"a policy for a match that is not there", sink(`file: {path: "-"}, on_error: drop`), []string{"sinks[0].on_error: is set without match"}},
		{"an empty oauth is none", strings.Replace(valid, "api_key: k", `oauth: {token_url: "", client_id: "", client_secret_file: ""}`, 1), []string{"has no credentials"}},
		{"a secret twice", appliance("api_key_file: " + key), []string{"appliances[0].api_key: is set, and so is api_key_file"}},
		{"a secret's file that is missing", strings.Replace(valid, "api_key: k", "api_key_file: /none", 1), []string{"appliances[0].api_key_file: /none: no such file or directory; correct the path"}},
		{"a certificate's file that is missing", appliance("tls: {ca_file: /none}"), []string{"appliances[0].tls.ca_file: /none: no such file or directory; correct the path"}},
		{"a certificate without its key", appliance("tls: {cert_file: " + key + "}"), []string{"tls.cert_file: is set without key_file"}},
		{"a key without its certificate", appliance("tls: {key_file: " + key + "}"), []string{"tls.key_file: is set without cert_file"}},
		{"certificates that are not PEM", appliance("tls: {ca_file: " + key + ", cert_file: " + key + ", key_file: " + key + "}"), []string{
			"appliances[0].tls.ca_file: " + key + " contains no PEM certificate", "appliances[0].tls.cert_file: " + key + " cannot be used with key_file"}},
		{"words that are none", appliance("product: a/b, scheme_word: 'a b'"), []string{`product: "a/b" is invalid`, `scheme_word: "a b" is invalid`}},
		{"times of nothing", appliance("timeout: 0, auth_retry: 0, rate_limit: 0, unreachable_after: 0"), []string{
			"timeout: is 0s", "auth_retry: is 0s", "rate_limit: is 0;", "unreachable_after: is 0;"}},
		{"an endless rate", appliance("rate_limit: .inf"), []string{`rate_limit: ".inf" is not a number`}},
		{"a wait that shrinks", appliance("retry: {initial: 1m, max: 1s}"), []string{"retry.max: is 1s, shorter than initial, which is 1m"}},
		{"a proxy of another kind", appliance("proxy: 'gopher://p'"), []string{"appliances[0].proxy: has a scheme that cannot be used here; write one of http, https, socks5"}},
		{"pages of one", appliance("detections: {page_size: 1}"), []string{"page_size: is 1; it must be between 2 and 20000"}},
		{"pages too large", appliance("detections: {page_size: 20001}"), []string{"page_size: is 20001"}},
		{"a negative overlap", appliance("detections: {overlap: -1s}"), []string{"detections.overlap: is -1s"}},
		{"a short memory", appliance("detections: {forget_after: 72h}"), []string{"forget_after: is 3d; it must be longer than reconcile.back, which is 3d"}},
		{"a long overlap", appliance("detections: {overlap: 91d}"), []string{"forget_after: is 90d; it must be longer than overlap, which is 91d"}},
		{"a filter of other values", appliance("detections: {filter: {categories: [sec, other.x], types: ['']}}"), []string{
			`filter.categories[1]: "other.x" is not a category`, "filter.types[0]: is empty"}},
		{"both forms of categories", appliance("detections: {filter: {category: sec, categories: [sec]}}"), []string{"filter.category: is the older form"}},
		{"enrichments that are none, or there twice", appliance("detections: {enrich: [link, users, link]}"), []string{
			`detections.enrich[1]: "users" is not one of devices, format, link`, "detections.enrich[2]: link is listed twice"}},
		{"follow-ups that are not looked for", appliance("detections: {reconcile: {every: 0, report: [hidden, gone, hidden]}}"), []string{
			"detections.reconcile.report[2]: hidden is listed twice", "detections.reconcile.report: requires reconcile.every, which is 0"}},
		{"no stream", appliance("detections: {enabled: false}, audit: {enabled: false}"), []string{"f.yaml:2:14: appliances[0]: has no streams; enable detections or audit, or add records"}},
		{"an audit log out of bounds", appliance("audit: {page_size: 1, interval: 0, start: in 1h}"), []string{
			"audit.page_size: is 1; it must be between 2 and 10000", "audit.interval: is 0s", `audit.start: "in 1h" is not a valid start`}},
		{"audit pages too large", appliance("audit: {page_size: 10001}"), []string{"f.yaml:2:44: appliances[0].audit.page_size: is 10001"}},
		{"an unknown key of a query", appliance("records: [{name: a, type: x}]"), []string{"f.yaml:2:45: appliances[0].records[0].type: is not a known key; did you mean types?"}},
		{"a query without a name", appliance("records: [{types: [~dns]}]"), []string{"f.yaml:2:35: appliances[0].records[0].name: is missing; set it, or the variable NDRBRIDGE_APPLIANCES_0_RECORDS_0_NAME"}},
		{"a query's bad name", appliance("records: [{name: DNS}]"), []string{`records[0].name: "DNS" is not a valid name`}},
		{"a query's name twice", appliance("records: [{name: a}, {name: a}]"), []string{`f.yaml:2:53: appliances[0].records[1].name: "a" is also the name of appliances[0].records[0]`}},
		{"an empty type of records", appliance(`records: [{name: a, types: [""]}]`), []string{"records[0].types[0]: is empty"}},
		{"a second look that comes before the first", appliance("records: [{name: a, delay: 15m}]"), []string{"records[0].recheck: is 10m; it must be longer than delay, which is 15m, or 0"}},
		{"times of nothing in a query", appliance("records: [{name: a, interval: 0, window: 0, delay: -1s, recheck: -1s, context_ttl: 0}]"), []string{
			"records[0].interval: is 0s", "records[0].window: is 0s", "records[0].delay: is -1s", "records[0].recheck: is -1s", "records[0].context_ttl: is 0s"}},
		{"a page of records that is too large", appliance("records: [{name: a, page_size: 10001, max_window_records: 10001}]"), []string{"records[0].page_size: is 10001; it must be between 2 and 10000"}},
		{"a window smaller than a page", appliance("records: [{name: a, max_window_records: 999}]"), []string{"records[0].max_window_records: is 999; it must be at least 1000"}},
		{"an unknown store", appliance("records: [{name: a, store: cloud}]"), []string{`records[0].store: "cloud" is not one of auto, own, third_party`}},

		// Sinks.
		{"a sink to nowhere", sink("mode: structured"), []string{"f.yaml:2:9: sinks[0]: has no destination"}},
		{"a sink with two targets", sink(`file: {path: "-"}, nats: {url: "nats://a"}`), []string{"sinks[0]: has nats and file; keep one"}},
		{"an unknown mode", sink(`file: {path: "-"}, mode: binery`), []string{`sinks[0].mode: "binery" is not one of structured, binary, batch; did you mean binary?`}},
		{"a batch for Kafka", sink(`kafka: {brokers: ["a:1"]}, mode: batch`), []string{`sinks[0].mode: "batch" is not supported by kafka, which supports structured, binary`}},
		{"a binary file", sink(`file: {path: "-"}, mode: binary`), []string{`"binary" is not supported by file, which supports structured`}},
		{"empty batches", sink(`file: {path: "-"}, batch: {max_events: 0, max_bytes: 0, linger: -1s}, probe: 0, retry: {initial: 0}`), []string{
			"batch.max_events: is 0;", "batch.max_bytes: is 0;", "batch.linger: is -1s", "retry.initial: is 0s", "probe: is 0s"}},
		{"no brokers", sink("kafka: {}"), []string{"sinks[0].kafka.brokers: is missing"}},
		{"binary events over syslog", sink(`syslog: {address: "h:6514"}, mode: binary`), []string{`"binary" is not supported by syslog, which supports structured`}},
		{"a receiver without a port", sink("syslog: {address: h}"), []string{`sinks[0].syslog.address: "h" is not an address; write host:port`}},
		{"no name of the application", sink(`syslog: {address: "h:514", app_name: "a b", hostname: "b c"}`), []string{`syslog.app_name: "a b" cannot be sent`, `syslog.hostname: "b c" cannot be sent`}},
		{"keys of TLS over UDP", sink(`syslog: {address: "h:514", network: udp, tls: {}}`), []string{`syslog.tls: belongs to network tls; leave it out`}},
		{"a message that no datagram holds", sink(`syslog: {address: "h:514", network: udp, max_bytes: 64KiB}`), []string{`syslog.max_bytes: is 64KiB, which no UDP datagram can hold; write at most 65507B`}},
		{"brokers without a port", sink("kafka: {brokers: [a, 'b:x']}"), []string{`brokers[0]: "a" is not an address`, `brokers[1]: "b:x" is not an address`}},
		{"a topic with another placeholder", sink(`kafka: {brokers: ["a:1"], topic: "ndr.{streem}"}`), []string{`sinks[0].kafka.topic: "ndr.{streem}" is not a topic name; write letters, digits, dots, - and _, and only {stream}, {appliance} and {action} in braces`}},
		{"a topic with half a placeholder", sink(`kafka: {brokers: ["a:1"], topic: "ndr.{stream"}`), []string{`"ndr.{stream" is not a topic name; write letters, digits, dots, - and _, and only {stream}, {appliance} and {action} in braces`}},
		{"a topic that is the folder above", sink(`kafka: {brokers: ["a:1"], topic: ".."}`), []string{`sinks[0].kafka.topic: ".." is not a topic name`}},
		{"a member with a long name", "cluster: {name: c, nats: {url: 'nats://h'}, member: 1" + strings.Repeat("m", 63) + "}" + valid, []string{`f.yaml:1:53: cluster.member: "1mmm`}},
		{"a ticket that is signed", sink("webhook: {url: 'https://a', sign: {secrets: [" + oldSignSecret + "]}, ticket: {system: jira, project: SEC, link: false}}"), []string{"sinks[0].webhook.sign: is not supported with ticket; leave it out"}},
		{"a webhook's verification without a secret", "admin: {token: longenough}\ntickets: {webhooks: {jira: {verify: header}}}" + valid, []string{"tickets.webhooks.jira.secret_file: is missing; without it, requests cannot be verified"}},
		{"a topic that is none", sink(`kafka: {brokers: ["a:1"], topic: "ndr/x"}`), []string{`"ndr/x" is not a topic name`}},
		{"other words for Kafka", sink(`kafka: {brokers: ["a:1"], acks: none, compression: zip, max_message_bytes: 0}`), []string{"kafka.acks:", "kafka.compression:", "kafka.max_message_bytes: is 0"}},
		{"SASL without a mechanism", sink(`kafka: {brokers: ["a:1"], sasl: {username: u}}`), []string{"kafka.sasl.mechanism: is missing"}},
		{"a token without its endpoint", sink(`kafka: {brokers: ["a:1"], sasl: {mechanism: oauthbearer}}`), []string{"sasl.oauth: is missing"}},
		{"a token with a password", sink(`kafka: {brokers: ["a:1"], sasl: {mechanism: oauthbearer, username: u, oauth: {token_url: "https://t", client_id: c, client_secret: s}}}`), []string{"sasl.username: belongs to"}},
		{"a token without a secret", sink(`kafka: {brokers: ["a:1"], sasl: {mechanism: oauthbearer, oauth: {token_url: "ftp://t", client_id: c}}}`), []string{"oauth.token_url: ", "oauth.client_secret_file: is missing"}},
		{"an AWS identity without a region", sink(`kafka: {brokers: ["a:1"], sasl: {mechanism: aws_msk_iam}}`), []string{"sasl.region: is missing"}},
		{"a region with a password", sink(`kafka: {brokers: ["a:1"], sasl: {mechanism: plain, username: u, password: p, region: eu-west-1}}`), []string{"sasl.region: belongs to"}},
		{"a password with a token", sink(`kafka: {brokers: ["a:1"], sasl: {mechanism: plain, username: u, password: p, oauth: {token_url: "https://t", client_id: c, client_secret: s}}}`), []string{"sasl.oauth: belongs to"}},
		{"SASL without a user", sink(`kafka: {brokers: ["a:1"], sasl: {mechanism: plain}}`), []string{"sasl.username: is missing", "sasl.password_file: is missing"}},
		{"a topic of a shape that there is not", sink(`kafka: {brokers: ["a:1"], create_topic: {partitions: -1, replication: 40000}}`), []string{
			"kafka.create_topic.partitions: is -1", "kafka.create_topic.replication: is 40000"}},
		{"no NATS server", sink("nats: {}"), []string{"nats.url: is missing"}},
		{"one bad NATS server of two", sink("nats: {url: 'nats://a, b:4222'}"), []string{"nats.url: has no scheme; write nats:// and the host, such as nats://name.example"}},
		{"a stream to create without a name", sink("nats: {url: 'nats://a', create_stream: true}"), []string{"nats.create_stream: is set without stream"}},
		{"a stream that is none", sink("nats: {url: 'nats://a', stream: a.b}"), []string{`nats.stream: "a.b" is not a stream name`}},
		{"a subject with a wildcard", sink("nats: {url: 'nats://a', subject: 'ndr.*'}"), []string{`nats.subject: "ndr.*" is not a valid subject to publish to`}},
		{"a subject with an empty word", sink("nats: {url: 'nats://a', subject: 'ndr..x'}"), []string{`"ndr..x" is not a valid subject`}},
		{"many ways into NATS", sink("nats: {url: 'nats://a', token: t, creds_file: " + key + ", username: u, password: p, max_pending: 0}"), []string{
			"sinks[0].nats: has several forms of authentication: creds_file and token and username; keep one", "nats.max_pending: is 0"}},
		{"a user without a password", sink("nats: {url: 'nats://a', username: u}"), []string{"nats.username: is set without password_file"}},
		{"a password without a user", sink("webhook: {url: 'https://a', auth: {password: p}}"), []string{"webhook.auth.password: is set without username"}},
		{"no webhook", sink("webhook: {}"), []string{"webhook.url: is missing"}},
		{"a signature of a body without the attributes", sink("webhook: {url: 'https://a', sign: {secrets: [whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz]}}, mode: binary"), []string{"webhook.sign: cannot be combined with mode binary"}},
		{"other methods", sink("webhook: {url: 'https://a', method: put_, timeout: 0}"), []string{`webhook.method: "put_" is not one of POST, PUT, PATCH`, "webhook.timeout: is 0s"}},
		{"headers that are none", sink(`webhook: {url: 'https://a', headers: {"a b": c, X-D: "e\nf"}}`), []string{"webhook.headers.a…: is not the name of a header", "webhook.headers.X-D: has a value with a line end"}},
		{"a header twice", sink(`webhook: {url: 'https://a', headers: {x-a: b, X-a: c}}`), []string{"is set twice with different capitalization"}},
		{"two Authorization headers", sink(`webhook: {url: 'https://a', headers: {Authorization: b}, auth: {bearer: c}}`), []string{"headers.Authorization: is set, and so is auth"}},
		{"a bearer token beside a URL with a password", sink(`webhook: {url: 'https://ana:sesame@a', auth: {bearer: c}}`), []string{"webhook.auth: is set, and url has a user name"}},
		{"a user name beside a URL with one", sink(`webhook: {url: 'https://ana@a', auth: {username: u, password: p}}`), []string{"webhook.auth: is set, and url has a user name"}},
		{"an Authorization header beside a URL with a password", sink(`webhook: {url: 'https://ana:sesame@a', headers: {authorization: b}}`), []string{"headers.authorization: is set, and url has a user name"}},
		{"two ways into a webhook", sink(`webhook: {url: 'https://a', auth: {bearer: c, username: u, password: p}}`), []string{"webhook.auth: has both bearer and a user name"}},
		{"OAuth beside a bearer token", sink(`webhook: {url: 'https://a', auth: {bearer: c, oauth: {token_url: 'https://t', client_id: i, client_secret: s}}}`), []string{"webhook.auth: has oauth and another way to authenticate"}},
		{"OAuth beside a user name", sink(`webhook: {url: 'https://a', auth: {username: u, password: p, oauth: {token_url: 'https://t', client_id: i, client_secret: s}}}`), []string{"webhook.auth: has oauth and another way to authenticate"}},
		{"OAuth beside an Authorization header", sink(`webhook: {url: 'https://a', headers: {Authorization: b}, auth: {oauth: {token_url: 'https://t', client_id: i, client_secret: s}}}`), []string{"headers.Authorization: is set, and so is auth"}},
		{"half of a webhook's OAuth", sink(`webhook: {url: 'https://a', auth: {oauth: {token_url: 'ftp://t', style: cookie}}}`), []string{
			"auth.oauth.client_id: is missing", "auth.oauth.client_secret_file: is missing", "auth.oauth.token_url: has a scheme", `auth.oauth.style: "cookie" is not one of auto, header, params`}},
		{"a file without a path", sink("file: {rotate: {keep: 0}}"), []string{"file.path: is missing", "file.rotate.keep: is 0"}},
		{"the state as a sink", "state: a.db\n" + sink("file: {path: ./a.db}"), []string{"file.path: is the state file"}},
		{"one file for two sinks", "sinks: [{name: a, file: {path: x/../y}}, {name: b, file: {path: y}}]\n" + strings.Split(valid, "\n")[1], []string{"sinks[1].file.path: is also written by sinks[0]"}},
		{"one file for three sinks", "sinks: [{name: a, file: {path: x}}, {name: b, file: {path: x}}, {name: c, file: {path: x}}]\n" + strings.Split(valid, "\n")[1], []string{
			"sinks[1].file.path: is also written by sinks[0]", "sinks[2].file.path: is also written by sinks[0]"}},
		{"a sink's name twice", "sinks: [{name: a, file: {path: x}}, {name: a, file: {path: y}}]\n" + strings.Split(valid, "\n")[1], []string{`sinks[1].name: "a" is also the name of sinks[0]`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config, err := Parse("f.yaml", []byte(test.file), nil)
			wantErrors(t, err, test.want)
			assert.True(t, config == nil, "there is a configuration all the same")
		})
	}
}

func wantErrors(t *testing.T, err error, want []string) {
	t.Helper()
	var all Errors
	require.True(t, errors.As(err, &all), err)
	assert.Equal(t, len(all), len(want), "errors", err)
	for _, text := range want {
		assert.Contains(t, err.Error(), text, "is missing in", err)
	}
}

// mistake is a part of a file, and a part of an error of the file.
type mistake struct{ name, text, want string }

// expectErrors checks that the files with the mistakes have their errors.
func expectErrors(t *testing.T, file func(text string) string, mistakes []mistake) {
	t.Helper()
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(file(m.text)), nil)
			assert.ErrorContains(t, err, m.want)
		})
	}
}

func TestParseAccepts(t *testing.T) {
	key := writeFile(t, "k")
	for name, file := range map[string]string{
		"the least":                       valid,
		"a slash behind the host":         strings.Replace(valid, "sensor.example", "sensor.example/", 1),
		"a port":                          strings.Replace(valid, "sensor.example", "sensor.example:8443", 1),
		"an address of six":               strings.Replace(valid, "sensor.example", "[2001:db8::1]:8443", 1),
		"keys without values":             "log:\nstate:\nadmin: {listen: ~}" + valid,
		"an open address with a token":    "admin: {listen: '0.0.0.0:9600', token: longenough}" + valid,
		"the other loopback":              "admin: {listen: '[::1]:0'}" + valid,
		"the cloud edition":               strings.Replace(valid, "api_key: k", "oauth: {token_url: 'https://t/oauth2/token', client_id: i, client_secret_file: "+key+"}", 1),
		"a category not in the interface": appliance("detections: {filter: {categories: [sec.attack, custom.ours]}}"),
		"records alone":                   appliance("detections: {enabled: false}, audit: {enabled: false}, records: [{name: a}]"),
		"queries of one name elsewhere":   "appliances: [{name: a, url: 'https://a', api_key: k, records: [{name: x}]}, {name: b, url: 'https://b', api_key: k, records: [{name: x}]}]\n" + strings.Split(valid, "\n")[2],
		"no second look at records":       appliance("records: [{name: a, recheck: 0, delay: 0, filter: {}}]"),
		"filters that share a rule":       appliance("records: [{name: a, filter: &f {field: a, operator: exists}}, {name: b, filter: {operator: not, rules: [*f]}}]"),
		"no sweep":                        appliance("detections: {reconcile: {every: 0}}"),
		"a slow rate":                     appliance("rate_limit: 0.5"),
		"a batch for a webhook":           sink("webhook: {url: 'https://a'}, mode: batch"),
		"a binary stream":                 sink("nats: {url: 'nats://a:1,tls://b:2', stream: S}, mode: binary"),
		"an anchor":                       strings.Replace(sink("retry: &r {max: 5m}, file: {path: x}"), "api_key: k", "api_key: &k k", 1),
		"a number as a password":          sink("kafka: {brokers: ['a:1'], sasl: {mechanism: plain, username: u, password: 0123}}"),
		"TLS with defaults":               sink("kafka: {brokers: ['a:1'], tls: {}}"),
	} {
		t.Run(name, func(t *testing.T) { parse(t, file) })
	}
}

func TestParseReturnsValues(t *testing.T) {
	config := parse(t, `
log: {level: debug}
appliances:
  - name: hq
    url: https://sensor.example/
    api_key: 0123
    rate_limit: 0.5
    detections:
      start: -7d
      enrich: [link]
    audit: {start: beginning}
    records:
      - {name: dns, types: ["~dns"], window: 5m}
sinks:
  - name: a
    kafka: {brokers: [a:1, b:2], tls: {}, create_topic: {partitions: 6}}
    batch: {max_bytes: 2MiB}
  - name: b
    webhook: {url: 'https://h', headers: {X-A: b}}
`)
	a, k, w := config.Appliances[0], config.Sinks[0], config.Sinks[1]
	secret, err := a.APIKey.Read()
	header, _ := w.Webhook.Headers["X-A"].Read()
	now := time.Now()
	for what, ok := range map[string]bool{
		"a level that is set":           config.Log.Level == "debug",
		"a format that is not":          config.Log.Format == "text",
		"an address without its slash":  a.URL == "https://sensor.example",
		"a key as it is written":        secret == "0123" && err == nil,
		"a fraction":                    a.RateLimit == 0.5,
		"a start":                       a.Detections.Start.At(now).Equal(now.AddDate(0, 0, -7)) || a.Detections.Start.String() == "-7d",
		"the defaults of an item":       a.Detections.Enabled && a.Detections.PageSize == 1000 && k.Probe == Duration(30*time.Second),
		"what to enrich":                slices.Equal(a.Detections.Enrich, []string{"link"}),
		"the defaults of the audit log": a.Audit.Enabled && a.Audit.PageSize == 500 && a.Audit.Start.String() == "beginning",
		"a query and its defaults": reflect.DeepEqual(a.Records, []RecordQuery{{
			Name: "dns", Types: []string{"~dns"}, Interval: Duration(30 * time.Second), Window: Duration(5 * time.Minute),
			Delay: Duration(30 * time.Second), PageSize: 1000, Store: "auto", Recheck: Duration(10 * time.Minute),
			MaxWindowRecords: 10000, ContextTTL: Duration(time.Minute),
		}}),
		"the defaults of an option":            k.Kafka.Compression == "zstd" && k.Kafka.TLS != nil,
		"a topic to be made":                   *k.Kafka.CreateTopic == NewTopic{Partitions: 6},
		"a default beside a value":             k.Batch == Batch{MaxEvents: 500, MaxBytes: 2 * MiB, Linger: Duration(50 * time.Millisecond)},
		"a header":                             header == "b",
		"blocks that are absent stay nil":      k.NATS == nil && k.Webhook == nil && k.File == nil && !a.OAuth.IsSet(),
		"a block of one sink, not of the next": w.Kafka == nil,
	} {
		assert.True(t, ok, what, "was not read", config, k.Kafka, w.Webhook)
	}
}

func TestLoadWithoutItsFile(t *testing.T) {
	_, err := Load(Source{Paths: []string{filepath.Join(t.TempDir(), "none.yaml")}})
	var all Errors
	assert.True(t, errors.Is(err, fs.ErrNotExist) && !errors.As(err, &all), err)
}

func FuzzParse(f *testing.F) {
	f.Add(string(Example()), "")
	f.Add(secretive, "NDRBRIDGE_SINKS_0_NAME=x")
	f.Add(valid, "NDRBRIDGE_APPLIANCES_1_DETECTIONS_FILTER_RISK_SCORE_MIN=7")
	f.Add("sinks: &a [*a, {kafka: &b {tls: *b}}]", "NDRBRIDGE_SINKS_1_WEBHOOK_HEADERS=a:b,c")
	f.Add("log: !!binary x\n? [a]\n: b", "NDRBRIDGE_SINKS_99999999999_NAME=")
	f.Fuzz(func(t *testing.T, file, variable string) {
		// The fuzzer must not make the tests read whatever it names.
		if strings.Contains(file, "_file") || strings.Contains(variable, "_FILE") {
			return
		}
		config, err := Parse("f.yaml", []byte(file), []string{variable})
		require.True(t, (config == nil) != (err == nil), config, err)
	})
}
