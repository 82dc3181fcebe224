package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/transform"
)

// sinkChoice is a sink that config new can write.
type sinkChoice struct{ name, about, yaml string }

// sinkChoices returns the sinks that config new can write.
func sinkChoices() []sinkChoice {
	const urgent = "    match: detection.risk_score >= 80 # leave it out for all events\n"
	return []sinkChoice{
		{"stdout", "standard output, one event per line", "    file: {path: \"-\"}\n"},
		{"file", "a file, one event per line", "    file: {path: ./events.jsonl}\n"},
		{"kafka", "Kafka", `    kafka:
      brokers: [kafka.example:9092]
      topic: ndr.{stream} # {stream} is detections, audit, records or events
      #create_topic: {partitions: 6} # creates missing topics
      #tls: {} # encrypts with the system's certificate authorities
      #sasl: {mechanism: scram-sha-512, username: ndrbridge, password_file: ./kafka.key}
    #format: ocsf # instead of CloudEvents; or ecs, cef, leef
`},
		{"nats", "NATS JetStream", `    nats:
      url: nats://nats.example:4222
      stream: NDR
      subject: ndr.{appliance}.{stream}.{action}
      #creds_file: ./nats.creds
`},
		{"webhook", "an HTTP endpoint that takes CloudEvents", `    webhook:
      url: https://collector.example/events
      auth: {bearer_file: ./webhook.key} # a file with the token and nothing else
`},
		{"syslog", "syslog over TLS, as JSON", `    syslog: {address: "siem.example:6514", network: tls}
`},
		{"cef", "syslog over TLS, in the Common Event Format", `    syslog: {address: "siem.example:6514", network: tls}
    format: cef
`},
		{"leef", "syslog over TLS, in the Log Event Extended Format", `    syslog: {address: "siem.example:6514", network: tls}
    format: leef
`},
		{"slack", "a channel of Slack", `    webhook:
      preset: slack
      url: https://hooks.slack.com/services/T00000000/B00000000/REPLACE # the incoming webhook of the channel; a secret
` + urgent},
		{"teams", "a channel of Microsoft Teams", `    webhook:
      preset: teams
      url: https://REPLACE.environment.api.powerplatform.com/powerautomate/workflows/REPLACE # the workflow's URL; a secret
` + urgent},
		{"discord", "a channel of Discord", `    webhook:
      preset: discord
      url: https://discord.com/api/webhooks/000000000000000000/REPLACE # the webhook of the channel; a secret
` + urgent},
		{"pagerduty", "incidents in PagerDuty", `    webhook:
      preset: pagerduty
      key_file: ./pagerduty.key # a file with the integration key of the service
` + urgent},
		{"splunk_hec", "the HTTP Event Collector of Splunk", `    webhook:
      preset: splunk_hec
      url: https://splunk.example:8088
      key_file: ./splunk_hec.key # a file with the collector's token
      #index: ndr # instead of the token's own
      #tls: {ca_file: ./splunk-ca.pem} # if the collector's certificate is self-signed
`},
		{"elasticsearch", "Elasticsearch and OpenSearch, in the Elastic Common Schema", `    webhook:
      preset: elasticsearch
      url: https://es.example:9200
      key_file: ./elasticsearch.key # a file with the API key, encoded as Elasticsearch shows it
    format: ecs
`},
		{"datadog", "the logs of Datadog", `    webhook:
      preset: datadog
      url: https://http-intake.logs.datadoghq.eu # of your site
      key_file: ./datadog.key # a file with the API key
`},
		{"sentinel", "Microsoft Sentinel", `    webhook:
      preset: sentinel
      url: https://REPLACE.westeurope-1.ingest.monitor.azure.com # of the data collection endpoint
      rule_id: dcr-00000000000000000000000000000000 # of the data collection rule
      auth:
        oauth:
          token_url: https://login.microsoftonline.com/REPLACE/oauth2/v2.0/token # with the tenant's id
          client_id: REPLACE
          client_secret_file: ./sentinel.key # a file with the client secret
`},
		{"jira", "an issue in Jira for each detection", `    webhook:
      url: https://REPLACE.atlassian.net
      auth: {username: ndrbridge@example.com, password_file: ./jira.key} # a file with the account's API token
      ticket: {system: jira, project: SEC, link: false}
` + urgent},
		{"servicenow", "an incident in ServiceNow for each detection", `    webhook:
      url: https://REPLACE.service-now.com
      auth: {username: ndrbridge, password_file: ./servicenow.key} # a file with the account's password
      ticket: {system: servicenow, link: false}
` + urgent},
	}
}

// newConfig is what config new writes.
type newConfig struct {
	appliance, name string
	tickets         bool
	sinks           []sinkChoice
}

// yaml returns the configuration file.
func (n newConfig) yaml() string {
	var b strings.Builder
	b.WriteString(`# Replace what is an example, write each secret into its file, and see what is left to do:
#   ndrbridge check --config FILE --connect
# Paths are relative to this file. Every other key: ndrbridge config example
state: ./ndrbridge.db
appliances:
`)
	fmt.Fprintf(&b, "  - name: %s\n    url: %s # only scheme and host\n    api_key_file: ./%s.key # a file with the API key and nothing else\n", n.name, n.appliance, n.name)
	fmt.Fprintf(&b, "    #product: ExtraHop # if that word is in the appliance's paths and its Authorization header\n    #tls: {ca_file: ./%s-ca.pem} # if its certificate is self-signed\n", n.name)
	b.WriteString("    detections: {start: -1d} # where reading begins: now, beginning, a duration or a time\nsinks:\n")
	for _, s := range n.sinks {
		if n.tickets { // then detections can be linked to the tickets that are opened
			s.yaml = strings.Replace(s.yaml, ", link: false", "", 1)
		}
		fmt.Fprintf(&b, "  # %s\n  - name: %s\n%s", s.about, strings.ReplaceAll(s.name, "_", "-"), s.yaml)
	}
	if n.tickets {
		b.WriteString("# Writes ticket changes back to the appliances: docs/tickets.md.\ntickets: {enabled: true}\n")
	}
	return b.String()
}

var applianceName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

func (c *command) configNewCommand() *cobra.Command {
	n := newConfig{appliance: "https://sensor.example", name: "hq"}
	var output string
	var force bool
	var list strings.Builder
	var names []string
	for _, s := range sinkChoices() {
		fmt.Fprintf(&list, "\n  %-14s %s", s.name, s.about)
		names = append(names, s.name)
	}
	cmd := &cobra.Command{
		Use:   "new SINK...",
		Short: "Print a small configuration for chosen sinks",
		Long: `Print a small, commented configuration that delivers the events of one appliance to the
chosen sinks. Addresses in it are examples to replace. Secrets are in files beside it;
ndrbridge check names those that are missing.

The sinks:
` + list.String(),
		Example: `  ndrbridge config new stdout --appliance https://sensor.example > ndrbridge.yaml
  ndrbridge config new kafka slack splunk_hec --output ndrbridge.yaml`,
		ValidArgsFunction: cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%w: name the sinks: %s", commandline.ErrUsage, strings.Join(names, ", "))
			}
			for i, arg := range args {
				if !slices.Contains(names, arg) {
					return fmt.Errorf("%w: there is no sink %q; choose from %s", commandline.ErrUsage, arg, strings.Join(names, ", "))
				}
				if slices.Contains(args[:i], arg) {
					return fmt.Errorf("%w: %s is named twice", commandline.ErrUsage, arg)
				}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			u, err := url.Parse(n.appliance)
			switch {
			case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(n.appliance, " \n\r\t"):
				return fmt.Errorf("%w: --appliance must be a scheme and a host, such as https://sensor.example", commandline.ErrUsage)
			case !applianceName.MatchString(n.name) || n.name == transform.Bridge:
				return fmt.Errorf("%w: --name must be 1 to 63 of a-z, 0-9 and -, and not %s", commandline.ErrUsage, transform.Bridge)
			case force && output == "":
				return fmt.Errorf("%w: --force requires --output", commandline.ErrUsage)
			}
			for _, s := range sinkChoices() {
				if slices.Contains(args, s.name) {
					n.sinks = append(n.sinks, s)
				}
			}
			if output == "" {
				_, err := fmt.Fprint(c.stdout, n.yaml())
				return err
			}
			return writeNew(output, n.yaml(), force)
		},
	}
	cmd.Flags().StringVar(&n.appliance, "appliance", n.appliance, "the `URL` of the appliance: scheme and host")
	cmd.Flags().StringVar(&n.name, "name", n.name, "the `NAME` of the appliance: a-z, 0-9 and -")
	cmd.Flags().BoolVar(&n.tickets, "tickets", false, "write ticket changes back to the appliance, and link detections to the tickets that jira or servicenow opens")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE` instead of standard output; it must not exist")
	completeFlagBy(cmd, "appliance", cobra.NoFileCompletions)
	completeFlagBy(cmd, "name", cobra.NoFileCompletions)
	completeFlagBy(cmd, "output", completeFiles("yaml", "yml"))
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file of --output")
	return cmd
}

// writeNew writes a file that only its owner can read, because it may get secrets. It
// overwrites one only if force is true, and keeps its permissions.
func writeNew(path, text string, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; choose another file, or overwrite it with --force", path)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}
