package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/fixture"
	"ndrbridge/internal/pipeline/routing"
)

func (c *command) testCommand() *cobra.Command {
	var only string
	cmd := c.withJSON(c.withConfig(&cobra.Command{
		Use:               "test FILE...",
		ValidArgsFunction: completeFiles("yaml", "yml"),
		Short:             "Run tests of the configuration: which sinks get an event, and what they send",
		Long: `Run the tests in YAML files against the configuration. A test has events, the sinks that
must send them, and what these must send. A sink that selects an event and cannot send
it, because its template fails, fails the test. The decisions and the output are those
of a running bridge. Nothing is contacted, and files of secrets and certificates need
not be readable, so that the tests can run anywhere.

  tests:
    - name: high risk goes to the chat
      events:
        - fixture: detection.created      # made from an example; set replaces its fields
          set: {risk_score: 95, title: Data Exfiltration}
      sinks: [chat, lake]                 # these send it, and no others do
      output:
        chat: {contains: [Data Exfiltration]}
        lake: {json: {data: {detection: {risk_score: 95}}}}

An event is one of:

  fixture     the name of an example, see below
              With it: set and remove fields of the object, before sets those of the
              version before an update, appliance and query name where it is from,
              attributes sets attributes of the event, such as causedby
  file        a file with one event per line, as written by ndrbridge tail --json
  event       a CloudEvent

The output of a sink is all that it sends for the events of the test, without the header
of syslog and without secrets. Where it names the bridge's version, that is test.

  events      the number of events
  contains    texts that occur, lacks those that do not
  json        the JSON values, each with at least these fields; one or a list
  lines       all lines, for CEF, LEEF and other texts

What is left out is not compared. An unknown key is an error. The exit code is 0 if all
tests pass, and 1 otherwise.

The names of the examples:

  ` + strings.Join(fixture.Names(), "\n  "),
		Example: `  ndrbridge try test --config ndrbridge.yaml tests.yaml
  ndrbridge try test --config ndrbridge.yaml tests/*.yaml --run 'chat|pager'
  ndrbridge try test --config ndrbridge.yaml tests.yaml --json`,
		Args: atLeast("one file of tests"),
		RunE: func(_ *cobra.Command, args []string) error {
			selected, err := regexp.Compile(only)
			if err != nil {
				return fmt.Errorf("%w: --run: %w", commandline.ErrUsage, err)
			}
			return c.test(args, selected)
		},
	}))
	cmd.Flags().StringVar(&only, "run", "", "run only the tests whose name matches this regular expression")
	return cmd
}

// loadWithoutSecrets is load for commands that contact nothing.
func (c *command) loadWithoutSecrets() (*configs.Config, error) {
	source := c.source()
	source.WithoutSecrets = true
	config, err := configs.Load(source)
	if err != nil {
		return nil, &commandline.ConfigError{Err: err}
	}
	return config, nil
}

// testResult is the result of a test as printed with --json.
type testResult struct {
	Test     string   `json:"test"`
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Passed   bool     `json:"passed"`
	Failures []string `json:"failures,omitempty"`
}

// test runs the tests in files whose names match selected.
func (c *command) test(files []string, selected *regexp.Regexp) error {
	config, err := c.loadWithoutSecrets()
	if err != nil {
		return err
	}
	const version = "test" // so that lines with the version do not change with it
	router, err := routing.New(config, version)
	if err != nil {
		return err
	}
	passed, failed := 0, 0
	for _, file := range files {
		tests, err := routing.ReadTests(file)
		if err != nil {
			return err
		}
		for _, t := range tests {
			if !selected.MatchString(t.Name) {
				continue
			}
			failures, err := router.Run(t)
			if err != nil {
				failures = []string{"cannot be run: " + err.Error()}
			}
			if len(failures) == 0 {
				passed++
			} else {
				failed++
			}
			if err := c.printTest(testResult{t.Name, t.File, t.Line, len(failures) == 0, failures}); err != nil {
				return err
			}
		}
	}
	if passed+failed == 0 {
		return fmt.Errorf("no test has a name that matches %q", selected)
	}
	if !c.asJSON {
		fmt.Fprintf(c.stdout, "\n%s: %d passed, %d failed\n", terminal.Count(passed+failed, "test"), passed, failed)
	}
	if failed > 0 {
		return commandline.ErrReported
	}
	return nil
}

// printTest prints the result of a test.
func (c *command) printTest(r testResult) error {
	if c.asJSON {
		return c.printJSON(r)
	}
	verdict, colour := "PASS", terminal.Green
	if !r.Passed {
		verdict, colour = "FAIL", terminal.Red
	}
	if c.colours() {
		verdict = colour.Apply(verdict)
	}
	if _, err := fmt.Fprintf(c.stdout, "%s  %s (%s:%d)\n", verdict, terminal.Printable(r.Test), terminal.Printable(r.File), r.Line); err != nil {
		return err
	}
	for _, failure := range r.Failures {
		for line := range strings.Lines(failure) {
			line = terminal.Printable(strings.TrimSuffix(line, "\n"))
			if c.colours() {
				line = coloured(line)
			}
			fmt.Fprintln(c.stdout, "      "+line)
		}
	}
	return nil
}

// coloured returns a line of a difference in its colour.
func coloured(line string) string {
	switch {
	case strings.HasPrefix(line, "- "):
		return terminal.Green.Apply(line)
	case strings.HasPrefix(line, "+ "):
		return terminal.Red.Apply(line)
	}
	return line
}
