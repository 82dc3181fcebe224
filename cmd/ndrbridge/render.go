package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/fixture"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

func (c *command) renderCommand() *cobra.Command {
	var sink, name string
	var fixtures []string
	batch := 0
	cmd := &cobra.Command{
		Use:   "render [PRESET]",
		Short: "Show what a sink would send for events",
		Long: `Read events from standard input, one JSON object per line, as written by ndrbridge
tail --json and by file sinks with CloudEvents, and print each request that a webhook with
this preset or with a template would send for them: its URL and its body, without secrets.
For a sink with another format than CloudEvents, print its documents. Nothing is sent.
With --fixture, example events are used instead.

PRESET is one of ` + strings.Join(presets.Names(), ", ") + `.

With --config, the settings of the sink with this preset are used: its match, redact,
index, tags and so on; likewise with NDRBRIDGE_CONFIG, if its configuration has such a sink.
Otherwise all events and fields are shown, and the URL and the key are placeholders.

Without PRESET, the sink of the configuration with a preset, a template, tickets or another
format is used. For a sink that opens tickets, the request that opens a ticket is shown.

Without --config, --format selects the format, whatever NDRBRIDGE_CONFIG names: with PRESET,
if it supports formats, or alone, which shows one document per event.

The size of a batch decides what a chat shows: a card for each event of a small batch,
or a summary of a large one. The size is batch.max_events of the sink, or the value of
--batch; the last batch may be smaller.`,
		Example: `  ndrbridge try render slack --config ndrbridge.yaml < events.jsonl
  ndrbridge try render --config ndrbridge.yaml --sink tickets < events.jsonl   # with its template
  ndrbridge tail --since -1h --no-follow -n 20 --json | ndrbridge try render splunk_hec
  ndrbridge tail --since -1h --no-follow --json | ndrbridge try render --format ecs           # documents
  ndrbridge tail --json | ndrbridge try render teams --batch 1    # one card per event
  ndrbridge try render discord --fixture detection.created        # an example event`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return presets.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(cmd *cobra.Command, args []string) error {
			known := strings.Join(presets.Names(), ", ")
			files, err := c.source().Files()
			if len(args) > 1 || len(args) == 0 && name == "" && err == nil && len(files) == 0 {
				return fmt.Errorf("%w: %s requires a preset, --config or --format; the presets are %s", commandline.ErrUsage, cmd.CommandPath(), known)
			}
			if len(args) == 1 && !slices.Contains(presets.Names(), args[0]) {
				return fmt.Errorf("%w: %q is not one of %s", commandline.ErrUsage, args[0], known)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("batch") && batch < 1 {
				return fmt.Errorf("%w: --batch: must be at least 1", commandline.ErrUsage)
			}
			s, err := c.sinkWith(strings.Join(args, ""), sink, format.Name(name))
			if err != nil {
				return err
			}
			if batch > 0 {
				s.Batch.MaxEvents = batch
			}
			if !endpoint.IsRendered(s) {
				return errors.New("the sink sends CloudEvents: it has no preset, no template, no tickets and no other format")
			}
			r, err := endpoint.NewRenderer(s, version)
			if err != nil {
				return err
			}
			input := cmd.InOrStdin()
			if len(fixtures) > 0 {
				if input, err = fixtureLines(fixtures, fixture.Event); err != nil {
					return err
				}
			}
			return c.render(cmd.Context(), r, s.Batch, input)
		},
	}
	cmd.Flags().StringVar(&sink, "sink", "", "the name of the sink, if several in the configuration would do")
	cmd.Flags().StringVar(&name, "format", "", "without --config, the format of the documents: "+formatNames(format.Names()))
	c.addFixture(cmd, &fixtures)
	completeFlagBy(cmd, "sink", c.completeNames(sinkNames))
	completeFlagBy(cmd, "format", cobra.FixedCompletions(strings.Split(formatNames(format.Names()), ", "), cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().IntVar(&batch, "batch", 0, "the number of events in a batch (default batch.max_events of the sink)")
	return c.withConfig(cmd)
}

// sinkWith returns the sink of the configuration that has the preset and the name. An
// empty preset matches every sink that endpoint.IsRendered reports; an empty name
// matches every sink. It is an error if none or several match. If a format is given, or a
// preset that no sink has and no flag names a configuration, it returns a sample sink with
// them.
func (c *command) sinkWith(preset, name string, of format.Name) (configs.Sink, error) {
	named := len(c.configFiles) > 0
	if of != "" && named {
		return configs.Sink{}, fmt.Errorf("%w: --format cannot be combined with --config: the sink has its format", commandline.ErrUsage)
	}
	if of != "" || preset != "" && !named && len(c.source().Paths) == 0 {
		if name != "" {
			return configs.Sink{}, fmt.Errorf("%w: --sink requires --config", commandline.ErrUsage)
		}
		return sampleSink(preset, of)
	}
	config, err := c.load()
	if err != nil {
		return configs.Sink{}, err
	}
	found := slices.DeleteFunc(config.Sinks, func(s configs.Sink) bool {
		switch {
		case name != "" && s.Name != name:
			return true
		case preset == "":
			return !endpoint.IsRendered(s)
		default:
			return s.Webhook == nil || s.Webhook.Preset != preset
		}
	})
	has := "preset " + preset
	if preset == "" {
		has = "a preset, a template, tickets or another format"
	}
	switch {
	case len(found) == 0 && name == "" && preset != "" && !named:
		return sampleSink(preset, "")
	case len(found) == 0 && name != "":
		return configs.Sink{}, fmt.Errorf("the configuration has no sink %s with %s", name, has)
	case len(found) == 0:
		return configs.Sink{}, fmt.Errorf("the configuration has no sink with %s", has)
	case len(found) > 1:
		names := sinkNames(&configs.Config{Sinks: found})
		return configs.Sink{}, fmt.Errorf("%w: several sinks have %s; select one with --sink: %s", commandline.ErrUsage, has, strings.Join(names, ", "))
	}
	return found[0], nil
}

// sampleSink returns a sink with the preset, if it is not empty, placeholders for its URL
// and key, and the format.
func sampleSink(preset string, of format.Name) (configs.Sink, error) {
	const events, bytes = 500, configs.MiB
	if of != "" && !of.IsKnown() {
		return configs.Sink{}, fmt.Errorf("%w: --format: %q is not one of %s", commandline.ErrUsage, of, formatNames(format.Names()))
	}
	if preset == "" {
		return configs.Sink{Name: "-", File: &configs.File{Path: "-"}, Format: string(of), Batch: configs.Batch{MaxEvents: events, MaxBytes: bytes}}, nil
	}
	spec, _ := presets.Find(preset)
	if of != "" && of != format.CloudEvents && !slices.Contains(spec.Formats, of) {
		return configs.Sink{}, fmt.Errorf("%w: --format: %s is not supported by preset %s", commandline.ErrUsage, of, preset)
	}
	w := configs.Webhook{
		Preset: preset, Method: "POST", URL: configs.NewURL(spec.Sample.URL), Key: configs.NewSecret(spec.Sample.Key), RuleID: spec.Sample.RuleID,
	}
	return configs.Sink{Webhook: &w, Format: string(of), Batch: configs.Batch{MaxEvents: events, MaxBytes: bytes}}, nil
}

func formatNames(names []format.Name) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}

// render prints the requests for events, in batches, until the end of events or until
// ctx is cancelled.
func (c *command) render(ctx context.Context, r *endpoint.Renderer, most configs.Batch, events io.Reader) error {
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

func (c *command) printRequest(r endpoint.Rendered) error {
	body := shownBody(r.Body)
	if c.terminal {
		body = printableLines(body)
	}
	_, err := fmt.Fprintf(c.stdout, "%s %s with %s\n%s\n", r.Method, r.URL, terminal.Count(r.Events, "event"), body)
	return err
}

// shownBody formats the body of a request for a person: one JSON value is indented,
// several are printed one per line, and anything else is left as it is. The result ends
// with a newline.
func shownBody(body []byte) string {
	lax := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	var values []jsontext.Value
	decoder := jsontext.NewDecoder(bytes.NewReader(body), lax...)
	for {
		value, err := decoder.ReadValue()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return strings.TrimSuffix(string(body), "\n") + "\n"
		}
		values = append(values, value.Clone())
	}
	var b strings.Builder
	for _, value := range values {
		if len(values) == 1 {
			_ = value.Indent(append(lax, jsontext.WithIndent("  "))...) // the decoder has validated it
		}
		b.Write(value)
		b.WriteByte('\n')
	}
	return b.String()
}

// printableLines replaces control characters in each line; see terminal.Printable.
func printableLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(terminal.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
