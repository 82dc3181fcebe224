package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const good = `
appliances:
  - {name: hq, url: "https://sensor.example", api_key: s3cret-key}
sinks:
  - {name: soc, webhook: {url: "https://hooks.example/T0PS3CRETTOKEN0123456789/x"}}
  - {name: log, file: {path: "-"}}
`

const streams = `
appliances:
  - {name: hq, url: "https://sensor.example", api_key: s3cret-key, records: [{name: dns, types: ["~dns"], start: -7d}, {name: rest}]}
  - {name: dc, url: "https://dc.example", api_key: s3cret-key, detections: {interval: 1m, enrich: [devices, link]}, audit: {enabled: false}}
sinks: [{name: log, file: {path: "-"}}]
`

// The blanks between the columns are the table's.
func TestCheckReportsEveryStream(t *testing.T) {
	text := strings.Replace(streams, "}}]", "}}, {name: oncall, webhook: {preset: pagerduty, key: s3cret}}]", 1) + "tickets: {enabled: true}\n"
	config := require.Value(configs.Parse("ndrbridge.yaml", []byte(text), nil))(t)
	var out bytes.Buffer
	printPlan(&out, []string{"a.yaml", "b.yaml"}, config)
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"configuration a.yaml, b.yaml",
		"appliance hq https://sensor.example 5 requests per second",
		"detections every 10s, from now",
		"audit every 30s, from now",
		"records/dns ~dns every 30s, from -7d",
		"records/rest all types every 30s, from now",
		"appliance dc https://dc.example 5 requests per second",
		"detections with devices, link every 1m, from now",
		"tickets enabled changes are written to the appliances",
		"sink log file, standard output structured, from now",
		"sink oncall webhook https://events.pagerduty.com/v2/enqueue pagerduty, from now",
	}
	if got = slices.Concat(got[:1], got[3:13]); !slices.Equal(got, want) {
		t.Errorf("it prints\n%s", &out)
	}
}

func TestCommands(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	valid := file("good.yaml", good)
	level := file("level.yaml", "log: {level: debug}")
	invalid := file("bad.yaml", good+"colour: red\nstate: [1]\n")
	for _, c := range []struct {
		name    string
		args    []string
		environ []string
		exit    int
		stdout  string
		stderr  string
	}{
		{"no command prints the help", nil, nil, 0, "ndrbridge run --config", ""},
		{"every command teaches", []string{"run", "--help"}, nil, 0, "shutdown_timeout", ""},
		{"the version is printed", []string{"version"}, nil, 0, "ndrbridge dev", ""},
		{"an unknown command is wrong usage", []string{"fly"}, nil, 2, "", `ndrbridge has no command "fly"`},
		{"an unknown flag is wrong usage", []string{"run", "--fly"}, nil, 2, "", "--fly"},
		{"an argument too many is wrong usage", []string{"status", "x"}, nil, 2, "", `got "x"`},
		{"check takes the file as an argument", []string{"check", valid}, nil, 0, "the configuration is valid", ""},
		{"check names a file that is missing", []string{"check", filepath.Join(folder, "none.yaml")}, nil, 78, "", "none.yaml"},
		{"commands are grouped in the help", nil, nil, 0, "Configure and run:\n  check ", ""},
		{"a valid configuration is printed as a plan", []string{"check", "--config", valid}, nil, 0, "the configuration is valid", ""},
		{"the environment names the file", []string{"check"}, []string{"NDRBRIDGE_CONFIG=" + valid}, 0, "https://sensor.example", ""},
		{"the environment alone is enough", []string{"check"}, []string{
			"NDRBRIDGE_APPLIANCES_0_NAME=hq", "NDRBRIDGE_APPLIANCES_0_URL=https://sensor.example", "NDRBRIDGE_APPLIANCES_0_API_KEY=k",
			"NDRBRIDGE_SINKS_0_NAME=log", "NDRBRIDGE_SINKS_0_FILE_PATH=-",
		}, 0, "sink log", ""},
		{"all errors are reported together with their positions", []string{"check", "-c", invalid}, nil, 78, "", "bad.yaml:7:1: colour"},
		{"the second mistake too", []string{"check", "-c", invalid}, nil, 78, "", "bad.yaml:8:"},
		{"a missing file is reported", []string{"check", "-c", filepath.Join(folder, "none.yaml")}, nil, 78, "", "none.yaml"},
		{"a bad configuration does not run", []string{"run", "-c", invalid}, nil, 78, "", "colour"},
		{"several files are merged", []string{"config", "print", "-c", valid, "-c", level}, nil, 0, "level: debug", ""},
		{"the environment names several files", []string{"config", "print"}, []string{"NDRBRIDGE_CONFIG=" + valid + string(filepath.ListSeparator) + level}, 0, "level: debug", ""},
		{"a separator at the end of the list is no file", []string{"config", "print"}, []string{"NDRBRIDGE_CONFIG=" + valid + string(filepath.ListSeparator)}, 0, "level: info", ""},
		{"nothing is configured", []string{"run"}, nil, 78, "", "ndrbridge: no configuration file was named: name a file with --config"},
		{"nothing is configured for check", []string{"check"}, nil, 78, "", "no configuration file was named: name a file"},
		{"nothing is configured for a command that acts", []string{"status"}, nil, 78, "", "ndrbridge: no configuration file was named: name a file"},
		{"nothing is configured for health", []string{"status", "--exit-code"}, nil, 78, "", "ndrbridge: no configuration file was named: name a file"},
		{"the effective values are printed", []string{"config", "print", "-c", valid}, nil, 0, "page_size: 1000", ""},
		{"a group of commands prints its help", []string{"dead"}, nil, 0, "ndrbridge dead requeue lake --all", ""},
		{"an unknown command of a group is wrong usage", []string{"dead", "fly"}, nil, 2, "", "list, requeue, show"},
		{"a shell that is not known is wrong usage", []string{"completion", "tcsh"}, nil, 2, "", "bash, fish, powershell, zsh"},
		{"a completion script is printed", []string{"completion", "bash"}, nil, 0, "__start_ndrbridge", ""},
		{"completion teaches", []string{"completion", "--help"}, nil, 0, "source <(ndrbridge completion bash)", ""},
		{"requeue requires keys or --all", []string{"dead", "requeue", "lake"}, nil, 2, "", "give keys"},
		{"requeue rejects keys together with --all", []string{"dead", "requeue", "lake", "k", "--all"}, nil, 2, "", "not both"},
		{"requeue is for sinks alone", []string{"dead", "requeue", "hq/audit", "--all"}, nil, 2, "", "ndrbridge rewind"},
		{"requeue requires a sink", []string{"dead", "requeue", "--all"}, nil, 2, "", "requires at least SINK"},
		{"drop requires keys or --all", []string{"dead", "drop", "hq/audit"}, nil, 2, "", "give keys"},
		{"an owner has a name", []string{"dead", "list", "/detections"}, nil, 2, "", "hq/detections"},
		{"show requires a key", []string{"dead", "show", "lake"}, nil, 2, "", "got 1 argument"},
		{"a list of ticket commands has one of their states", []string{"tickets", "list", "--status", "done"}, nil, 2, "", "pending, applied, rejected"},
		{"a ticket command is shown by its number", []string{"tickets", "show", "SEC-1"}, nil, 2, "", "as ndrbridge tickets list prints it"},
		{"ticket commands are dropped one by one", []string{"tickets", "drop"}, nil, 2, "", "requires at least ID"},
		{"pause requires a sink", []string{"pause"}, nil, 2, "", "requires SINK,"},
		{"rename requires both names", []string{"state", "rename", "lake"}, nil, 2, "", "requires OLD NEW"},
		{"status takes nothing", []string{"status", "lake"}, nil, 2, "", `got "lake"`},
		{"render requires a preset", []string{"try", "render"}, nil, 2, "", "slack, teams, discord"},
		{"render requires a known preset", []string{"try", "render", "irc"}, nil, 2, "", `"irc" is not one of slack, teams`},
		{"render requires a positive batch size", []string{"try", "render", "slack", "--batch", "0"}, nil, 2, "", "--batch: must be at least 1"},
		{"render requires a sink in the configuration", []string{"try", "render", "slack", "-c", valid}, nil, 1, "", "no sink with preset slack"},
		{"the schema is printed", []string{"config", "schema"}, nil, 0, `"$schema": "https://json-schema.org/draft/2020-12/schema"`, ""},
		{"the example is printed", []string{"config", "example"}, nil, 0, "appliances:", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			environ := c.environ
			if len(c.args) > 0 && c.args[0] == "check" { // something else may listen on the usual port
				environ = append([]string{"NDRBRIDGE_ADMIN_LISTEN=127.0.0.1:0"}, environ...)
			}
			exit, stdout, stderr := (&command{environ: environ}).try(t, "", c.args...)
			if exit != c.exit || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit %d, want %d\nstdout: %s\nwant: %s\nstderr: %s\nwant: %s", exit, c.exit, stdout, c.stdout, stderr, c.stderr)
			}
			for _, secret := range []string{"s3cret", "T0PS3CRET"} {
				assert.NotContains(t, stdout+stderr, secret, "it prints a secret", stdout, stderr)
			}
		})
	}
}

func TestHelpListsCommandsOnceTheyAreConfigured(t *testing.T) {
	const bridge = `
appliances: [{name: hq, url: "https://sensor.example", api_key: k}]
sinks: [{name: log, file: {path: "-"}}]
`
	for _, c := range []struct {
		name             string
		environ          []string
		cluster, tickets bool
	}{
		{"nothing is configured", nil, false, false},
		{"neither is", []string{"NDRBRIDGE_CONFIG=" + writeFile(t, "plain.yaml", bridge, 0o600)}, false, false},
		{"ticket commands are", []string{"NDRBRIDGE_CONFIG=" + writeFile(t, "tickets.yaml", bridge+"tickets: {enabled: true}\n", 0o600)}, false, true},
		{"a cluster is", []string{"NDRBRIDGE_CONFIG=" + writeFile(t, "cluster.yaml", bridge+"cluster: {name: prod, member: a, nats: {url: \"nats://127.0.0.1\"}}\n", 0o600)}, true, false},
		{"a file that has a mistake may have both", []string{"NDRBRIDGE_CONFIG=" + writeFile(t, "mistake.yaml", "colour: red\n", 0o600)}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, help, _ := (&command{environ: c.environ}).try(t, "", "--help")
			assert.Equal(t, strings.Contains(help, "\n  cluster "), c.cluster, help)
			assert.Equal(t, strings.Contains(help, "\n  tickets "), c.tickets, help)
			code, _, _ := (&command{environ: c.environ}).try(t, "", "tickets", "--help")
			assert.Equal(t, code, 0, "a command that is not listed")
		})
	}
}
