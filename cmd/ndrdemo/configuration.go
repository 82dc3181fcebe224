package main

import (
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"ndrbridge/configs"
	standin "ndrbridge/test/appliance"
)

// configuration is the template of the bridge's configuration. Its intervals are short, so
// that a person sees something happen.
const configuration = `# Written by ndrdemo. Every key: ndrbridge config example
state: {{printf "%q" .State}}
log: {level: info}
shutdown_timeout: 5s
admin: {listen: "127.0.0.1:0"} # a free port
appliances:
  - name: hq
    url: {{printf "%q" .ApplianceURL}}
    api_key: {{printf "%q" .APIKey}}
    rate_limit: 20
    retry: {initial: 200ms, max: 2s}
    detections:
      interval: 500ms
      start: beginning
      overlap: 30s
      reconcile: {every: 2s, back: 5m} # finds detections that became visible later than overlap
    audit: {interval: 500ms, start: beginning}
    records:
      - {name: all, start: -1m, interval: 500ms, window: 5s, delay: 200ms, recheck: 4s} # recheck finds records that were stored later than delay
sinks:
  - name: bus
    nats: {url: {{printf "%q" .NATSURL}}, stream: NDR, subject: "ndr.{appliance}.{stream}.{action}", create_stream: true}
    retry: {initial: 100ms, max: 2s}
  - name: soc
    webhook: {url: {{printf "%q" .WebhookURL}}}
    retry: {initial: 100ms, max: 2s}
  - name: chat
    webhook: {preset: slack, url: {{printf "%q" .ChatURL}}}
    match: detection.risk_score >= 80
    retry: {initial: 100ms, max: 2s}
  - name: tickets
    webhook:
      url: {{printf "%q" .JiraURL}}
      auth: {username: {{.Email}}, password: {{.Token}}}
      ticket:
        system: jira
        project: {{.Project}}
        follow:
          comment: [status]
          states: {closed: {to: Done, fields: {resolution: Done}}, reopened: {to: To Do}}
    match: detection.risk_score >= 98
    retry: {initial: 100ms, max: 2s}
  - name: log
    file: {path: {{printf "%q" .File}}, rotate: {max_bytes: 0}}
tickets: # links detections to their tickets, closes them when the tickets are closed, and brings comments to their notes
  enabled: true
  notes: {out: true, interval: 1s}
  webhooks: {jira: {secret: {{.Secret}}, accounts: [{{.Account}}]}}
`

// demoSink is a sink of the configuration.
type demoSink struct{ name, kind string }

// String returns the name and the kind of the sink.
func (o demoSink) String() string { return o.name + ", " + o.kind }

const (
	sinkBus = "bus"
	sinkSOC = "soc"
	sinkLog = "log"
)

// demoSinks are the sinks that receive all events, in display order.
var demoSinks = [...]demoSink{{sinkBus, "NATS"}, {sinkSOC, "webhook"}, {sinkLog, "file"}}

// files holds the paths of the files and folders that a demo writes.
type files struct{ Config, State, File, Log, JetStream string }

func filesIn(folder string) files {
	return files{
		Config:    filepath.Join(folder, "ndrbridge.yaml"),
		State:     filepath.Join(folder, "ndrbridge.db"),
		File:      filepath.Join(folder, "events.jsonl"),
		Log:       filepath.Join(folder, "ndrbridge.log"),
		JetStream: filepath.Join(folder, "jetstream"),
	}
}

// addresses holds the URLs of the servers.
type addresses struct{ ApplianceURL, NATSURL, WebhookURL, ChatURL, JiraURL string }

// writeConfiguration writes the bridge's configuration file and loads it.
func writeConfiguration(f files, a addresses) (*configs.Config, error) {
	var text strings.Builder
	err := template.Must(template.New("").Parse(configuration)).Execute(&text, struct {
		files
		addresses
		APIKey, Email, Token, Project, Secret, Account string
	}{f, a, standin.DefaultAPIKey, jiraEmail, jiraToken, jiraProject, jiraSecret, jiraAccount})
	if err != nil {
		return nil, err
	}
	const owner = 0o600 // the file contains a key
	if err := os.WriteFile(f.Config, []byte(text.String()), owner); err != nil {
		return nil, err
	}
	return loadConfiguration(f)
}

// loadConfiguration loads the bridge's configuration file. The user's environment must not
// change the demo.
func loadConfiguration(f files) (*configs.Config, error) {
	return configs.Load(configs.Source{Paths: []string{f.Config}})
}
