package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/internal/secretfile"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/transform"
)

// newConfig is what config new writes.
type newConfig struct {
	name    string
	tickets bool
	sinks   []endpoint.Example
	values  map[string]string // by the name of the example and the key, such as kafka.brokers
	folder  string            // of the secrets, relative to the file, with a slash at the end
	prefix  string            // of the paths of the secrets in the file
}

// ofAppliance is the name of the example that has the keys of the appliance.
const ofAppliance = "appliance"

// examples returns the appliance and the sinks.
func (n newConfig) examples() []endpoint.Example {
	start := "-1d"
	if slices.ContainsFunc(n.sinks, endpoint.Example.Urgent) {
		start = "now" // nobody wants to be paged for yesterday
	}
	return append([]endpoint.Example{{Name: ofAppliance, YAML: fmt.Sprintf(`    url: https://sensor.example.com # only scheme and host
    api_key_file: ./%[1]s.key # a file with the API key and nothing else
    #product: ExtraHop # if that word is in the appliance's paths and its Authorization header
    #tls: {ca_file: ./%[1]s-ca.pem} # if its certificate is self-signed
    detections: {start: %[2]s} # where reading begins: now, beginning, a duration such as -1d, or a time
`, n.name, start)}}, n.sinks...)
}

// question is a value of an example that must be replaced, or a secret that must be written.
type question struct {
	key, value, about string
	secret            bool // value is the name of a file
}

var valueInLine = regexp.MustCompile(`([a-z_]+): (\[?)("?)([^\s,"\[\]{}]+)("?)`)

// questions calls visit for each question of an example, and returns the example with the
// values that it returns.
func questions(example string, visit func(question) string) string {
	var filled strings.Builder
	for line := range strings.Lines(example) {
		code, about, commented := strings.Cut(line, "#")
		filled.WriteString(valueInLine.ReplaceAllStringFunc(code, func(found string) string {
			m := valueInLine.FindStringSubmatch(found)
			q := question{key: m[1], value: m[4], about: strings.TrimSpace(about)}
			q.value, q.secret = strings.CutPrefix(q.value, "./")
			q.secret = q.secret && strings.HasSuffix(q.key, "_file")
			if !q.secret && !configs.IsExample(q.value) {
				return found
			}
			return m[1] + ": " + m[2] + visit(q)
		}))
		if commented {
			filled.WriteString("#" + about)
		}
	}
	return filled.String()
}

var plainScalar = regexp.MustCompile(`^[A-Za-z][\w:/.@%?=&+-]*$`)

// scalar returns a text as YAML.
func scalar(text string) string {
	if plainScalar.MatchString(text) && !strings.HasSuffix(text, ":") {
		return text
	}
	return strconv.Quote(strings.ReplaceAll(text, "${", "$${"))
}

// filled returns the keys of an example with their values.
func (n newConfig) filled(e endpoint.Example) string {
	return questions(e.YAML, func(q question) string {
		value, given := n.values[e.Name+"."+q.key]
		switch {
		case q.secret && n.prefix != "./":
			return `"` + n.prefix + q.value + `"`
		case q.secret:
			return "./" + q.value
		case given && q.key == "brokers":
			var brokers []string
			for broker := range strings.SplitSeq(value, ",") {
				brokers = append(brokers, scalar(strings.TrimSpace(broker)))
			}
			return strings.Join(brokers, ", ")
		case given:
			return scalar(value)
		}
		return scalar(q.value)
	})
}

// yaml returns the configuration file.
func (n newConfig) yaml() string {
	var b strings.Builder
	b.WriteString("# See what is left to do: ndrbridge check --connect. Paths are relative to this file.\n" +
		"# Every other key: ndrbridge config example\nappliances:\n")
	for i, e := range n.examples() {
		keys := n.filled(e)
		if i == 0 {
			fmt.Fprintf(&b, "  - name: %s\n%ssinks:\n", n.name, keys)
			continue
		}
		if n.tickets { // then detections can be linked to the tickets that are opened
			keys = strings.Replace(keys, ", link: false", "", 1)
		}
		fmt.Fprintf(&b, "  # %s\n  - name: %s\n%s", e.About, sinkName(e), keys)
	}
	var chats []string
	for _, s := range n.sinks {
		if preset, _ := presets.Find(s.Name); preset.Chat {
			chats = append(chats, sinkName(s))
		}
	}
	if chats != nil {
		fmt.Fprintf(&b, "notify: [%s] # gets the trouble of the bridge, whatever its match\n", strings.Join(chats, ", "))
	}
	if n.tickets {
		b.WriteString("# Writes ticket changes back to the appliances: docs/tickets.md.\ntickets: {enabled: true}\n")
	}
	return b.String()
}

func sinkName(e endpoint.Example) string { return strings.ReplaceAll(e.Name, "_", "-") }

var applianceName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// newOptions are the flags of config new.
type newOptions struct {
	newConfig
	output, appliance, apiKeyFile string
	force                         bool
	given, givenFiles             []string          // of --value and --secret-file
	secrets                       map[string]string // by the name of the example
}

func (c *command) configNewCommand() *cobra.Command {
	o := &newOptions{newConfig: newConfig{name: "hq"}}
	var list strings.Builder
	for _, s := range endpoint.Examples() {
		fmt.Fprintf(&list, "\n  %-14s %s", s.Name, s.About)
	}
	cmd := &cobra.Command{
		Use:   "new SINK...",
		Short: "Make a small configuration for chosen sinks",
		Long: `Make a small, commented configuration that delivers the events of one appliance to the
chosen sinks, in this order. Without --output it is printed.

With --output, each secret is written into a file of its own, with mode 0600, in the
folder secrets beside the configuration if there is one, as in /etc/ndrbridge, otherwise
beside it. A secret that exists is kept. On a terminal the command asks for each URL and
secret that no flag gives; elsewhere it never asks, and leaves examples, which ndrbridge
check and ndrbridge run refuse. On a terminal it ends with ndrbridge check --connect and ndrbridge send.

The sinks:
` + list.String(),
		Example: `  ndrbridge config new splunk_hec slack --output ndrbridge.yaml
  ndrbridge config new kafka --value kafka.brokers=127.0.0.1:9092 --appliance https://sensor.example`,
		ValidArgsFunction: cobra.FixedCompletions(exampleNames(), cobra.ShellCompDirectiveNoFileComp),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%w: name the sinks: %s", commandline.ErrUsage, strings.Join(exampleNames(), ", "))
			}
			for i, arg := range args {
				if !slices.Contains(exampleNames(), arg) {
					return fmt.Errorf("%w: there is no sink %q; choose from %s", commandline.ErrUsage, arg, strings.Join(exampleNames(), ", "))
				}
				if slices.Contains(args[:i], arg) {
					return fmt.Errorf("%w: %s is named twice", commandline.ErrUsage, arg)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.newConfig(cmd.Context(), o, args) },
	}
	cmd.Flags().StringVar(&o.appliance, "appliance", "", "the `URL` of the appliance: scheme and host")
	cmd.Flags().StringVar(&o.apiKeyFile, "api-key-file", "", "a `FILE` with the appliance's API key to copy; - reads standard input")
	cmd.Flags().StringArrayVar(&o.given, "value", nil, "a value as `SINK.KEY=VALUE`, such as splunk_hec.url=https://splunk.example:8088; repeatable")
	cmd.Flags().StringArrayVar(&o.givenFiles, "secret-file", nil, "a file with a sink's key, token, password or secret URL to copy, as `SINK=FILE`; - reads standard input; repeatable")
	cmd.Flags().StringVar(&o.name, "name", o.name, "the `NAME` of the appliance: a-z, 0-9 and -")
	cmd.Flags().BoolVar(&o.tickets, "tickets", false, "write ticket changes back to the appliance, and link detections to the tickets that jira, servicenow, rt or redmine opens")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "write to `FILE` instead of standard output; it must not exist")
	completeFlagBy(cmd, "output", completeFiles("yaml", "yml"))
	cmd.Flags().BoolVar(&o.force, "force", false, "overwrite the file of --output, and secrets for which a file is given")
	return cmd
}

func exampleNames() (names []string) {
	for _, e := range endpoint.Examples() {
		names = append(names, e.Name)
	}
	return names
}

// newConfig makes the configuration. It writes nothing before it has all values.
func (c *command) newConfig(ctx context.Context, o *newOptions, sinks []string) error {
	for _, name := range sinks {
		i := slices.Index(exampleNames(), name)
		o.sinks = append(o.sinks, endpoint.Examples()[i])
	}
	if !applianceName.MatchString(o.name) || o.name == transform.Bridge {
		return fmt.Errorf("%w: --name must be 1 to 63 of a-z, 0-9 and -, and not %s", commandline.ErrUsage, transform.Bridge)
	}
	if o.output == "" && (o.force || o.apiKeyFile != "" || len(o.givenFiles) > 0) {
		return fmt.Errorf("%w: --force, --api-key-file and --secret-file require --output", commandline.ErrUsage)
	}
	o.prefix = "./"
	if folder, err := os.Stat(filepath.Join(filepath.Dir(o.output), "secrets")); o.output != "" && err == nil && folder.IsDir() {
		o.folder, o.prefix = "secrets/", "${NDR_SECRETS:-./secrets/}" // the unit of systemd sets it
	}
	if _, err := os.Stat(o.output); err == nil && !o.force {
		return exists(o.output)
	}
	if err := o.take(c.stdin); err != nil {
		return err
	}
	if c.interactive && o.output != "" {
		c.askValues(ctx, o)
	}
	if address := o.values[ofAppliance+".url"]; address != "" {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("%w: --appliance must be a scheme and a host, such as https://sensor.example", commandline.ErrUsage)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("nothing was written: %w", err)
	}
	if o.output == "" {
		_, err := fmt.Fprint(c.stdout, o.yaml())
		return err
	}
	if err := o.write(); err != nil {
		return err
	}
	return c.tryNew(ctx, o)
}

// take takes the values and the secrets that flags give.
func (o *newOptions) take(stdin io.Reader) error {
	o.values, o.secrets = make(map[string]string), make(map[string]string)
	files := make(map[string]string)
	if o.appliance != "" {
		o.given = append(o.given, ofAppliance+".url="+o.appliance)
	}
	if o.apiKeyFile != "" {
		o.givenFiles = append(o.givenFiles, ofAppliance+"="+o.apiKeyFile)
	}
	var keys, secrets []string
	for _, e := range o.examples() {
		questions(e.YAML, func(q question) string {
			if q.secret {
				secrets, files[e.Name] = append(secrets, e.Name), o.pathOf(q)
			} else {
				keys = append(keys, e.Name+"."+q.key)
			}
			return ""
		})
	}
	for _, given := range o.given {
		key, value, _ := strings.Cut(given, "=")
		switch {
		case !slices.Contains(keys, key):
			return fmt.Errorf("%w: --value: there is no %q; choose from %s", commandline.ErrUsage, key, strings.Join(keys, ", "))
		case value == "" || secretfile.HasControl(value):
			return fmt.Errorf("%w: --value: %s has no value, or one with a control character", commandline.ErrUsage, key)
		}
		o.values[key] = value
	}
	for _, given := range o.givenFiles {
		name, file, _ := strings.Cut(given, "=")
		if !slices.Contains(secrets, name) {
			return fmt.Errorf("%w: --secret-file: %q has no secret; choose from %s", commandline.ErrUsage, name, strings.Join(secrets, ", "))
		}
		from, err := os.Stat(file)
		if there, errThere := os.Stat(files[name]); err == nil && errThere == nil && os.SameFile(from, there) {
			continue // it is where the configuration expects it
		}
		secret := configs.Secret{File: file}
		if file == "-" {
			text, err := io.ReadAll(io.LimitReader(stdin, 1<<20))
			if err != nil {
				return fmt.Errorf("read standard input: %w", err)
			}
			secret = configs.NewSecret(string(text))
		}
		text, err := secret.Read()
		if err != nil {
			return fmt.Errorf("secret of %s: %w", name, err)
		}
		if o.secrets[name] = text; text == "" {
			return fmt.Errorf("secret of %s: standard input is empty", name)
		}
	}
	return nil
}

// pathOf returns the path of the file with a secret.
func (o *newOptions) pathOf(q question) string {
	return filepath.Join(filepath.Dir(o.output), o.folder+q.value)
}

// askValues asks for what no flag gives and no file has. An empty answer leaves it out.
func (c *command) askValues(ctx context.Context, o *newOptions) {
	for _, e := range o.examples() {
		if e.Prepare != "" {
			fmt.Fprintf(c.stderr, "\n%s: %s.\n", e.Title, e.Prepare)
		}
		questions(e.YAML, func(q question) string {
			label := e.Name + " " + strings.TrimSuffix(q.key, "_file")
			if q.about != "" {
				label += " (" + strings.TrimPrefix(q.about, "a file with ") + ")"
			}
			_, hasValue := o.values[e.Name+"."+q.key]
			_, hasSecret := o.secrets[e.Name]
			_, missing := os.Stat(o.pathOf(q))
			switch {
			case q.secret && !hasSecret && missing == nil:
				fmt.Fprintf(c.stderr, "%s: %s exists and is kept\n", label, o.pathOf(q))
			case q.secret && !hasSecret:
				if answer := c.askSecret(ctx, label+", not shown: "); answer != "" {
					o.secrets[e.Name] = answer
				}
			case !q.secret && !hasValue:
				if answer := c.ask(ctx, label+", such as "+q.value+": "); answer != "" && !secretfile.HasControl(answer) {
					o.values[e.Name+"."+q.key] = answer
				}
			}
			return ""
		})
	}
}

// write writes the secrets, and then the configuration that names them.
func (o *newOptions) write() error {
	var errs []error
	for _, e := range o.examples() {
		questions(e.YAML, func(q question) string {
			if text, given := o.secrets[e.Name]; q.secret && given && errors.Join(errs...) == nil {
				errs = append(errs, writeWhole(o.pathOf(q), text+"\n", 0o600, o.force))
			}
			return ""
		})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if o.folder != "" {
		mode = 0o644 // the user of the service, which systemd makes at each start, reads it, and it has no secret
	}
	if before, err := os.Stat(o.output); err == nil {
		mode = before.Mode().Perm()
	}
	return writeWhole(o.output, o.yaml(), mode, o.force)
}

func exists(path string) error {
	return fmt.Errorf("%s exists; choose another file, or overwrite it with --force", path)
}

// writeWhole writes a file so that it is never there in part. It overwrites one only if force
// is true.
func writeWhole(path, text string, mode fs.FileMode, force bool) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(text)
	err = errors.Join(err, file.Sync(), file.Close(), os.Chmod(file.Name(), mode))
	switch {
	case err != nil:
	case force:
		err = os.Rename(file.Name(), path)
	default:
		err = os.Link(file.Name(), path) // unlike a rename, it fails if the file exists
	}
	if errors.Is(err, fs.ErrExist) {
		return exists(path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// tryNew says what to do next, on a terminal after a check of all connections and the test
// messages that are confirmed.
func (c *command) tryNew(ctx context.Context, o *newOptions) error {
	fmt.Fprintf(c.stderr, "wrote %s\n", o.output)
	try := func(cmd *cobra.Command, args ...string) error {
		cmd.SetContext(ctx)
		c.configFiles = []string{o.output} // which making the command has emptied
		return cmd.RunE(cmd, args)
	}
	var err error
	if c.interactive {
		check := c.checkCommand()
		err = cmp.Or(check.Flags().Set("connect", "true"), try(check))
		for _, e := range o.sinks {
			name := sinkName(e)
			if err == nil && c.ask(ctx, "Send a test message to "+name+"? [y/N] ") == "y" {
				err = try(c.sendCommand(), name)
			}
		}
	}
	config, run := " --config "+o.output, "ndrbridge run --config "+o.output
	if o.output == configs.DefaultPaths()[1] {
		config, run = "", "systemctl enable --now ndrbridge"
	}
	fmt.Fprintf(c.stderr, `next:
  ndrbridge check --connect%[1]s
  ndrbridge send %[2]s%[1]s   # a test message
  %[3]s
`, config, sinkName(o.sinks[0]), run)
	return err
}
