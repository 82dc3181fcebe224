package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"testing"

	"ndrbridge/test/assert"
)

func TestABuildIsDescribed(t *testing.T) {
	for _, c := range []struct {
		name           string
		build          build
		settings       []debug.BuildSetting
		text, revision string
	}{
		{"a release", build{Version: "1.2.3", Commit: "0a1b2c", Date: "2026-01-31T08:00:00Z", Go: "go1.26", OS: "linux", Arch: "arm64"}, nil,
			"1.2.3 (commit 0a1b2c, 2026-01-31T08:00:00Z, go1.26, linux/arm64)", "0a1b2c"},
		{"a build without a repository", build{Version: "dev", Go: "go1.26", OS: "linux", Arch: "amd64"}, nil,
			"dev (go1.26, linux/amd64)", "unknown"},
		{"a build of a changed repository", build{Version: "dev", Go: "go1.26", OS: "linux", Arch: "amd64"},
			[]debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "0a1b2c"}, {Key: "vcs.time", Value: "2026-01-31T08:00:00Z"}, {Key: "vcs.modified", Value: "true"}},
			"dev (commit 0a1b2c-modified, 2026-01-31T08:00:00Z, go1.26, linux/amd64)", "0a1b2c-modified"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.build.stamp(c.settings)
			assert.Equal(t, c.build.String(), c.text, c.build)
			assert.Equal(t, c.build.revision(), c.revision, c.build)
		})
	}
}

func TestTheVersionIsPrintedAsJSON(t *testing.T) {
	exit, out, errs := try(t, "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(out), &b); exit != 0 || err != nil || b.Version != "dev" || b.Go != runtime.Version() || b.OS != runtime.GOOS || b.Arch != runtime.GOARCH {
		t.Errorf("exit %d, %v: %s%s", exit, err, out, errs)
	}
}
