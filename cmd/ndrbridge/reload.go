package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
)

func (c *command) reloadCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "reload",
		Short: "Have the running bridge reload its configuration",
		Long: `Have the running bridge load its configuration again and apply what differs. Each
appliance and sink that was added, changed or removed is printed. Changed ones are
stopped and continue from where they were; everything else is undisturbed. A sink also
changes if the content of a file does that it uses, such as a template or a certificate.

If the configuration is invalid, or a key differs that cannot change while the bridge
runs, nothing is changed, the error is printed, and the exit code is 78. The bridge reads
its own files and the environment of its start. SIGHUP does the same, and so does the
bridge itself for changed files if reload.watch is set; they report the result in the log
and in ndrbridge status.

In a cluster, only the member that is asked reloads its configuration. Ask all of them: one
that takes the log over later uses its own.`,
		Example: `  ndrbridge reload --config ndrbridge.yaml
  ndrbridge check --config ndrbridge.yaml && ndrbridge reload --config ndrbridge.yaml`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The bridge reports the errors of its configuration itself.
			silent := func(error, string) {}
			return c.actingDespite(cmd.Context(), func(control *admin.Client) error {
				reloaded, err := control.Reload(cmd.Context())
				switch {
				case errors.Is(err, admin.ErrConfiguration):
					return &commandline.ConfigError{Err: err}
				case err != nil:
					return err
				}
				lines := []string{"nothing changed"}
				if len(reloaded.Changes) > 0 {
					lines = reloaded.Changes
				}
				for i, line := range lines {
					lines[i] = terminal.Printable(line)
				}
				return c.print(reloaded, "%s", strings.Join(lines, "\n"))
			}, silent, c.actingOffline)
		},
	}))
}

// reloadText describes the result of a reload in a line of the status.
func reloadText(r admin.ReloadStatus, now time.Time) string {
	by := map[string]string{admin.TriggerSignal: "SIGHUP", admin.TriggerAPI: "a request", admin.TriggerWatch: "a changed file"}[r.Trigger]
	text := terminal.Ago(r.Time, now)
	if by != "" {
		text += " by " + by
	}
	switch {
	case !r.OK:
		return text + ", failed"
	case len(r.Changes) == 0:
		return text + ", nothing changed"
	}
	return fmt.Sprintf("%s, %s", text, terminal.Count(len(r.Changes), "change"))
}

// reloadAdvice returns what to do about a failed reload, or "".
func reloadAdvice(r *admin.ReloadStatus) string {
	if r == nil || r.OK {
		return ""
	}
	then := " and run ndrbridge reload"
	if r.Trigger == admin.TriggerWatch {
		then = ", and it is reloaded automatically"
	}
	return "the configuration was not reloaded, and the bridge continues with the previous one; correct it" + then + ": " + r.Error
}
