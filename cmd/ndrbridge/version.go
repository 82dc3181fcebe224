package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
)

// The linker sets these for releases.
var (
	version = "dev"
	commit  string // the full hash
	date    string // of the commit, in RFC 3339
)

// build describes how the program was built. Its JSON is stable: fields may be added, but
// never change their meaning.
type build struct {
	Version string `json:"version"`
	// Commit and Date are of the source; empty: unknown.
	Commit string `json:"commit,omitempty"`
	Date   string `json:"date,omitempty"`
	// Modified is true if the source differed from the commit.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// thisBuild returns how this program was built: as the linker set it or, without that, as the go
// command recorded it.
func thisBuild() build {
	b := build{Version: version, Commit: commit, Date: date, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && b.Commit == "" {
		b.stamp(info.Settings)
	}
	return b
}

// stamp sets the commit from the settings of a build.
func (b *build) stamp(settings []debug.BuildSetting) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
}

// revision returns the commit for metrics and logs, or unknown.
func (b build) revision() string {
	switch {
	case b.Commit == "":
		return "unknown"
	case b.Modified:
		return b.Commit + "-modified"
	}
	return b.Commit
}

// String returns the version and, in brackets, everything else that is known.
func (b build) String() string {
	var details []string
	if b.Commit != "" {
		details = append(details, "commit "+b.revision())
	}
	if b.Date != "" {
		details = append(details, b.Date)
	}
	details = append(details, b.Go, b.OS+"/"+b.Arch)
	return fmt.Sprintf("%s (%s)", b.Version, strings.Join(details, ", "))
}

func (c *command) versionCommand() *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it was built from",
		Long: `Print the version, the commit and its date if they are known, the version of Go, and
the system that the program was built for. The metric ndrbridge_build_info has the same.`,
		Example: `  ndrbridge version
  ndrbridge version --json | jq -r .commit`,
		Args: commandline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return c.print(b, "ndrbridge %s", b)
		},
	})
}
