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
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/transform"
)

// newConfig is what config new writes.
type newConfig struct {
	appliance, name string
	tickets         bool
	sinks           []endpoint.Example
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
			s.YAML = strings.Replace(s.YAML, ", link: false", "", 1)
		}
		fmt.Fprintf(&b, "  # %s\n  - name: %s\n%s", s.About, strings.ReplaceAll(s.Name, "_", "-"), s.YAML)
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
	for _, s := range endpoint.Examples() {
		fmt.Fprintf(&list, "\n  %-14s %s", s.Name, s.About)
		names = append(names, s.Name)
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
			for _, s := range endpoint.Examples() {
				if slices.Contains(args, s.Name) {
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
