package deploy_test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// find returns the group of a pattern in a file, which must match exactly once.
func find(t *testing.T, file, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)`+pattern).FindAllStringSubmatch(read(t, file), -1)
	require.Equal(t, len(found), 1, file, "times that it has", pattern)
	return found[0][1]
}

// TestABridgeIsGivenTimeToStop checks that whatever stops the bridge waits longer than
// its shutdown_timeout. A shutdown that is cut short causes duplicates.
func TestABridgeIsGivenTimeToStop(t *testing.T) {
	for _, at := range []struct{ file, pattern, config string }{
		{"systemd/ndrbridge.service", `^TimeoutStopSec=(\d+)$`, "systemd/ndrbridge.yaml"},
		{"compose/compose.yaml", `stop_grace_period: (\d+)s$`, "compose/ndrbridge.yaml"},
		{"compose/cluster/compose.yaml", `stop_grace_period: (\d+)s$`, "compose/cluster/ndrbridge.yaml"},
		{"kubernetes/cluster/statefulset.yaml", `terminationGracePeriodSeconds: (\d+)$`, "kubernetes/cluster/ndrbridge.yaml"},
		{"kubernetes/base/deployment.yaml", `terminationGracePeriodSeconds: (\d+)$`, "kubernetes/base/ndrbridge.yaml"},
	} {
		t.Run(at.file, func(t *testing.T) {
			seconds, err := strconv.Atoi(find(t, at.file, at.pattern))
			config, _ := load(t, at.config, read(t, at.config))
			grace := time.Duration(seconds) * time.Second
			assert.True(t, err == nil && grace >= time.Duration(config.ShutdownTimeout)+10*time.Second, "it is killed after", grace, "but its shutdown_timeout", config.ShutdownTimeout)
		})
	}
}

// TestConfigurationErrorsDoNotRestartTheService checks the exit status that ends the
// restarts, which is that of the main process only.
func TestConfigurationErrorsDoNotRestartTheService(t *testing.T) {
	assert.Equal(t, find(t, "systemd/ndrbridge.service", `^RestartPreventExitStatus=(.*)$`), "78", "it is")
	assert.NotContains(t, read(t, "systemd/ndrbridge.service"), "\nExecStartPre=", "a command runs before the main process, whose failure is repeated")
}

func TestReleaseAndImageAreLinkedWithTheSameFlags(t *testing.T) {
	image := find(t, "../Dockerfile", `go build (.*) -o /out/`)
	image = strings.NewReplacer("$VERSION", "V", "$REVISION", "C", "$DATE", "D").Replace(image)
	release := strings.NewReplacer("{{.Version}}", "V", "{{.FullCommit}}", "C", "{{.CommitDate}}", "D").
		Replace(find(t, "../.goreleaser.yaml", `ldflags: \["(.*)"\]`))
	flags := strings.ReplaceAll(find(t, "../.goreleaser.yaml", `flags: \[(-.*)\]$`), ",", "")
	assert.Equal(t, image, flags+` -ldflags "`+release+`"`, "the image is linked with", "a release with")
}

// TestImageAndWorkflowsUseTheToolchainOfTheModule checks that workflows take the version
// of Go from go.mod and that the image has the same.
func TestImageAndWorkflowsUseTheToolchainOfTheModule(t *testing.T) {
	compiler := find(t, "../go.mod", `^toolchain go(.*)$`)
	files, err := filepath.Glob("../.github/workflows/*.yaml")
	require.True(t, err == nil && len(files) != 0, "there are no workflows", err)
	assert.Equal(t, find(t, "../Dockerfile", `golang:([^@\s]+)`), compiler, "the image is built by", "the module by")
	for _, file := range files {
		text := read(t, file)
		set, ours := strings.Count(text, "actions/setup-go@"), strings.Count(text, "go-version-file: go.mod")
		assert.Equal(t, set, ours, file, "sets up Go", "times, but", "times with the version of go.mod")
	}
}

// TestActionsAndImagesArePinnedByDigest requires digests, because a tag can be moved.
func TestActionsAndImagesArePinnedByDigest(t *testing.T) {
	workflows, err := filepath.Glob("../.github/workflows/*.yaml")
	require.True(t, err == nil && len(workflows) != 0, "there are no workflows", err)
	references := func(file, pattern string) (all []string) {
		for _, found := range regexp.MustCompile(`(?m)`+pattern).FindAllStringSubmatch(read(t, file), -1) {
			all = append(all, found[1])
		}
		assert.True(t, len(all) != 0, file, "has no", pattern)
		return all
	}
	action := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range workflows {
		for _, uses := range references(file, `uses: (.*)$`) {
			assert.True(t, action.MatchString(uses), file, uses, "is not a commit followed by its version")
		}
	}
	ours := []string{"scratch", "ndrbridge", "ndrappliance"}
	image := regexp.MustCompile(`^[\w./:-]+@sha256:[0-9a-f]{64}$`)
	for _, name := range append(references("../Dockerfile", `^FROM (?:--\S+ )?(\S+)`), slices.Concat(references("compose/compose.yaml", `^    image: (\S+)$`), references("compose/cluster/compose.yaml", `^ +image: (\S+)$`))...) {
		assert.True(t, image.MatchString(name) || slices.Contains(ours, name), "the image", name, "has no digest")
	}
}

func TestReleaseAndImageContainThirdPartyLicences(t *testing.T) {
	const texts = "THIRD_PARTY_LICENSES.txt"
	for file, lines := range map[string][]string{
		"../Dockerfile":       {"go run ./deploy/licences ./cmd/ndrbridge ./cmd/ndrappliance > /out/" + texts, "COPY --from=build /src/LICENSE /out/" + texts + " /licenses/"},
		"../.goreleaser.yaml": {"go run ./deploy/licences ./cmd/ndrbridge > bin/release/" + texts, "{src: bin/release/*,", "/usr/share/doc/ndrbridge/" + texts},
	} {
		for _, want := range lines {
			assert.Contains(t, read(t, file), want, file, "lacks")
		}
	}
}

// TestEmbeddedFilesAreInTheBuildContext checks that .dockerignore does not exclude files
// that Go embeds, whatever their extension.
func TestEmbeddedFilesAreInTheBuildContext(t *testing.T) {
	embed := regexp.MustCompile(`(?m)^//go:embed (.+)$`)
	var ignored []string
	for line := range strings.Lines(read(t, "../.dockerignore")) {
		ignored = append(ignored, strings.TrimPrefix(strings.TrimSpace(line), "**/"))
	}
	embedded := 0
	for _, file := range sources(t) {
		for _, match := range embed.FindAllStringSubmatch(read(t, "../"+file), -1) {
			for _, name := range strings.Fields(match[1]) {
				embedded++
				parts := strings.Split(path.Join(path.Dir(file), name), "/")
				for _, part := range append(parts, "*"+path.Ext(name)) {
					assert.False(t, slices.Contains(ignored, part), file, "embeds", name, "which .dockerignore excludes")
				}
			}
		}
	}
	assert.True(t, embedded != 0, "nothing is embedded")
}

// sources returns the paths of the module's Go files except tests.
func sources(t *testing.T) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(".."), ".", func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && at != ".":
			return fs.SkipDir
		case strings.HasSuffix(at, ".go") && !strings.HasSuffix(at, "_test.go"):
			files = append(files, at)
		}
		return nil
	})
	require.NoError(t, err)
	return files
}

func TestComposeFileMatchesItsConfigurations(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Secrets []string
			Ports   []string
			CapDrop []string `yaml:"cap_drop"`
		}
	}
	decode(t, "compose/compose.yaml", &file)
	assert.Equal(t, strings.TrimSpace(read(t, "compose/secrets/appliance-key")), standin.DefaultAPIKey, "the appliance's key", "but the stand-in expects")
	_, secrets := load(t, "compose/ndrbridge.yaml", read(t, "compose/ndrbridge.yaml"))
	for _, secret := range secrets {
		assert.True(t, slices.Contains(file.Services["bridge"].Secrets, path.Base(secret)), "the bridge is not given", secret)
	}
	for name, service := range file.Services {
		assert.EqualSlices(t, service.CapDrop, []string{"ALL"}, name, "keeps capabilities")
		for _, port := range service.Ports {
			assert.True(t, strings.HasPrefix(port, "127.0.0.1:"), name, "publishes", port, "beyond loopback")
		}
	}

	// The rules and the dashboard select the bridge by the name of the job.
	type scraping struct {
		ScrapeConfigs []struct {
			JobName string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
		RuleFiles []string `yaml:"rule_files"`
	}
	var here, there scraping
	decode(t, "compose/prometheus.yaml", &here)
	decode(t, "prometheus/prometheus.yaml", &there)
	assert.DeepEqual(t, here, there, "Prometheus scrapes", "in compose, but", "elsewhere")
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(read(t, file)), into), file)
}

const prometheusRule = `# Generated from ../../prometheus/rules.yaml by make reference.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ndrbridge
  labels: {app.kubernetes.io/name: ndrbridge}
spec:
`

// TestTheRulesOfTheClusterAreTheRules rewrites the cluster's rules if UPDATE is set.
func TestTheRulesOfTheClusterAreTheRules(t *testing.T) {
	const file = "kubernetes/monitoring/prometheusrule.yaml"
	var want bytes.Buffer
	want.WriteString(prometheusRule)
	inGroups := false
	for line := range strings.Lines(read(t, "prometheus/rules.yaml")) {
		inGroups = inGroups || strings.HasPrefix(line, "groups:")
		if inGroups {
			if line != "\n" {
				want.WriteString("  ")
			}
			want.WriteString(line)
		}
	}
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, want.Bytes(), 0o644))
	}
	assert.Equal(t, read(t, file), want.String(), file, "does not match the rules: run make reference")
}
