package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/bridge"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/transform"
)

func (c *command) renderCommand() *cobra.Command {
	var sink string
	batch := 0
	cmd := &cobra.Command{
		Use:   "render [PRESET]",
		Short: "Show what a webhook's preset or template makes of events",
		Long: `Read events from standard input, an event in JSON a line, as ndrbridge tail --json
and file sinks write them, and print each request that a webhook with this preset, or
with a template, would send for them: its URL and its body, both without secrets.
Nothing is sent.

PRESET is one of ` + strings.Join(configs.Presets(), ", ") + `.

With --config, the sink that has the preset there says how: its match and redact, its
index, tags and so on. Without, nothing is left out and URL and key stand for yours.
With --config and without PRESET it is the sink that has a preset or a template, or
that opens tickets: of one, the request that opens a ticket is shown.

How many events come at once decides what a chat shows: a card for each of a few, and
a summary of many. That is up to batch.max_events of the sink, or what --batch says;
fewer are printed when the input ends.`,
		Example: `  ndrbridge render slack --config ndrbridge.yaml < events.jsonl
  ndrbridge render --config ndrbridge.yaml --sink tickets < events.jsonl   # by its template
  ndrbridge tail --since -1h --json | head -n 20 | ndrbridge render splunk_hec
  ndrbridge tail --json | ndrbridge render teams --batch 1    # a card for each, as they come
  ndrdemo events | ndrbridge render discord                   # of a stand-in appliance`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return configs.Presets(), cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(cmd *cobra.Command, args []string) error {
			known := strings.Join(configs.Presets(), ", ")
			if len(args) > 1 || len(args) == 0 && c.configFile == "" {
				return fmt.Errorf("%w: %s takes one argument, one of %s, or --config, and %d were given", commandline.ErrUsage, cmd.CommandPath(), known, len(args))
			}
			if len(args) == 1 && !slices.Contains(configs.Presets(), args[0]) {
				return fmt.Errorf("%w: %q is none of %s", commandline.ErrUsage, args[0], known)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("batch") && batch < 1 {
				return fmt.Errorf("%w: --batch: must be at least 1", commandline.ErrUsage)
			}
			s, err := c.sinkWith(strings.Join(args, ""), sink)
			if err != nil {
				return err
			}
			if batch > 0 {
				s.Batch.MaxEvents = batch
			}
			r, err := bridge.NewRenderer(s)
			if err != nil {
				return err
			}
			return c.render(cmd.Context(), r, s.Batch, cmd.InOrStdin())
		},
	}
	cmd.Flags().StringVarP(&c.configFile, "config", "c", c.variable("NDRBRIDGE_CONFIG"),
		"the configuration file that has the sink; without one, a sink that has nothing else")
	cmd.Flags().StringVar(&sink, "sink", "", "the sink, where several of the configuration come into question")
	cmd.Flags().IntVar(&batch, "batch", 0, "how many events come at once (default batch.max_events of the sink)")
	return cmd
}

// sinkWith is the configuration's sink with a preset, where one is given, else with
// any or a template, and of a name, where one is given; without a configuration, one
// that stands for it.
func (c *command) sinkWith(preset, name string) (configs.Sink, error) {
	if c.configFile == "" {
		if name != "" {
			return configs.Sink{}, fmt.Errorf("%w: --sink goes with --config", commandline.ErrUsage)
		}
		return sampleSink(preset), nil
	}
	config, err := configs.Load(c.configFile, c.environ)
	if err != nil {
		return configs.Sink{}, err
	}
	found := slices.DeleteFunc(config.Sinks, func(s configs.Sink) bool {
		switch w := s.Webhook; {
		case w == nil, name != "" && s.Name != name:
			return true
		case preset == "":
			return w.Preset == "" && w.Ticket == nil && !w.HasTemplate()
		default:
			return w.Preset != preset
		}
	})
	has := "preset " + preset
	if preset == "" {
		has = "a preset, a template or tickets"
	}
	switch {
	case len(found) == 0 && name != "":
		return configs.Sink{}, fmt.Errorf("%s has no sink %s with %s", c.configFile, name, has)
	case len(found) == 0:
		return configs.Sink{}, fmt.Errorf("%s has no sink with %s", c.configFile, has)
	case len(found) > 1:
		names := sinkNames(&configs.Config{Sinks: found})
		return configs.Sink{}, fmt.Errorf("%w: several sinks have %s; name one of them with --sink: %s", commandline.ErrUsage, has, strings.Join(names, ", "))
	}
	return found[0], nil
}

// sampleSink stands for a sink with a preset that nobody has configured.
func sampleSink(preset string) configs.Sink {
	const events, bytes = 500, configs.MiB
	w := configs.Webhook{Preset: preset, Method: "POST", URL: configs.NewURL("https://" + preset + ".example/events")}
	switch preset {
	case configs.PresetPagerDuty:
		w.URL = configs.NewURL("https://pagerduty.example/v2/enqueue")
		w.Key = configs.NewSecret("routing-key")
	case configs.PresetSplunkHEC:
		w.URL = configs.NewURL("https://splunk.example:8088")
		w.Key = configs.NewSecret("token")
	case configs.PresetDatadog:
		w.Key = configs.NewSecret("api-key")
	}
	return configs.Sink{Webhook: &w, Batch: configs.Batch{MaxEvents: events, MaxBytes: bytes}}
}

// render prints the requests for events, in batches, until there are no more
// events or ctx ends.
func (c *command) render(ctx context.Context, r *bridge.Renderer, most configs.Batch, events io.Reader) error {
	var batch []transform.Event
	size := 0
	flush := func() error {
		defer func() { batch, size = nil, 0 }()
		for request, err := range r.Render(batch) {
			if err != nil {
				fmt.Fprintln(c.stderr, err)
				continue
			}
			if err := c.printRequest(request); err != nil {
				return err
			}
		}
		return nil
	}
	for line, err := range eventLines(ctx, events) {
		if err != nil {
			return err
		}
		n := len(line.event.Structured())
		if len(batch) > 0 && size+n > int(most.MaxBytes) {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size = append(batch, line.event), size+n
		if len(batch) == most.MaxEvents {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func (c *command) printRequest(r bridge.Rendered) error {
	body := shownBody(r.Body)
	if c.terminal {
		body = printableLines(body)
	}
	_, err := fmt.Fprintf(c.stdout, "%s %s with %s\n%s\n", r.Method, r.URL, counted(r.Events, "event"), body)
	return err
}
