package main

import (
	"strings"
	"testing"

	"ndrbridge/internal/fixture"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/test/require"
)

func TestNamesAreCompleted(t *testing.T) {
	config := writeFile(t, "ndrbridge.yaml", streams, 0o600)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"the sinks", []string{"pause", ""}, "log"},
		{"one argument alone", []string{"pause", "log", ""}, ""},
		{"the presets", []string{"try", "render", ""}, strings.Join(presets.Names(), " ")},
		{"one preset alone", []string{"try", "render", "slack", ""}, ""},
		{"the appliances", []string{"verify", ""}, "hq dc"},
		{"the streams of an appliance", []string{"rewind", "hq", ""}, "detections audit records/dns records/rest"},
		{"the streams of events", []string{"tail", "--stream", ""}, "detections audit records events records/dns records/rest"},
		{"the sinks of a flag", []string{"try", "render", "slack", "--sink", ""}, "log"},
		{"the times that have a name", []string{"replay", "log", "--since", ""}, "today yesterday beginning -1h -1d -7d"},
		{"the statuses of ticket commands", []string{"tickets", "list", "--status", ""}, "pending applied rejected"},
		{"no file for a number", []string{"tickets", "list", "--limit", ""}, ""},
		{"no file for a command without arguments", []string{"status", ""}, ""},
		{"the sinks of a route", []string{"try", "route", "--sink", ""}, "log"},
		{"the example events", []string{"try", "route", "--fixture", ""}, strings.Join(fixture.Names(), " ")},
		{"the owners of dead letters", []string{"dead", "list", ""}, "log hq/detections hq/audit hq/records/dns hq/records/rest dc/detections"},
		{"nothing without a configuration", []string{"replay", "--config", "/none", ""}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := &command{environ: []string{"NDRBRIDGE_CONFIG=" + config}}
			exit, out, errs := command.try(t, "", append([]string{"__completeNoDesc"}, c.args...)...)
			require.Equal(t, exit, 0, "exit", errs)
			names, directive, _ := strings.Cut(out, ":")
			if got := strings.Join(strings.Fields(names), " "); got != c.want || directive != "4\n" {
				t.Errorf("%q with the directive %q, want %q with 4, no files", got, directive, c.want)
			}
		})
	}
}
