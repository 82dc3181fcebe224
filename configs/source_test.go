package configs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// writeFiles writes the files, named by their paths within folder, and returns the folder.
func writeFiles(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return folder
}

func TestFilesOfSource(t *testing.T) {
	folder := writeFiles(t, map[string]string{
		"one.yaml": "", "conf.d/20.yml": "", "conf.d/10.yaml": "", "conf.d/.hidden.yaml": "", "conf.d/readme.md": "",
		"conf.d/old.yaml/10.yaml": "", "conf.d/..data/30.yaml": "", "empty/readme.md": "", "link/readme.md": "", "pipe/readme.md": "",
	})
	for _, err := range []error{
		os.Symlink(filepath.Join("..data", "30.yaml"), filepath.Join(folder, "conf.d", "30.yaml")),
		os.Symlink("none", filepath.Join(folder, "link", "10.yaml")),
		syscall.Mkfifo(filepath.Join(folder, "pipe", "10.yaml"), 0o600),
	} {
		require.NoError(t, err)
	}
	for _, test := range []struct {
		name            string
		paths, defaults []string
		want            []string
		err             string
	}{
		{name: "a file", paths: []string{"one.yaml"}, want: []string{"one.yaml"}},
		{name: "a file and a folder in the order given", paths: []string{"one.yaml", "conf.d"}, want: []string{"one.yaml", "conf.d/10.yaml", "conf.d/20.yml", "conf.d/30.yaml"}},
		{name: "the first default that exists", defaults: []string{"none.yaml", "one.yaml", "conf.d/10.yaml"}, want: []string{"one.yaml"}},
		{name: "no default is read if a path is given", paths: []string{"conf.d/10.yaml"}, defaults: []string{"one.yaml"}, want: []string{"conf.d/10.yaml"}},
		{name: "a default that is a folder", defaults: []string{"conf.d"}, want: []string{"conf.d/10.yaml", "conf.d/20.yml", "conf.d/30.yaml"}},
		{name: "nothing exists", defaults: []string{"none.yaml"}},
		{name: "a path that does not exist", paths: []string{"one.yaml", "none.yaml"}, err: "none.yaml: no such file or directory"},
		{name: "an empty path", paths: []string{"one.yaml", ""}, err: "its path is empty"},
		{name: "a folder without configuration files", paths: []string{"empty"}, err: "empty has no files whose names end in .yaml or .yml"},
		{name: "a link to nothing in a folder", paths: []string{"link"}, err: "read the configuration link/10.yaml: no such file or directory; correct the path"},
		{name: "a pipe in a folder", paths: []string{"pipe"}, err: "read the configuration pipe/10.yaml: it is not a regular file; remove it from the folder"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(folder)
			got, err := Source{Paths: test.paths, Defaults: test.defaults}.Files()
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
			} else if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%q %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestNothingIsConfigured(t *testing.T) {
	defaults := []string{filepath.Join(t.TempDir(), "ndrbridge.yaml")}
	for _, environ := range [][]string{nil, {"NDRBRIDGE_STATE=/var/lib/ndrbridge/state.db", "NDRBRIDGE_CONFIG=", "NDRBRIDGE_SINKS_0_NAME="}} {
		_, err := Load(Source{Defaults: defaults, Environ: environ})
		assert.True(t, errors.Is(err, ErrNothing) && strings.HasPrefix(err.Error(), "no configuration file was named, and there is no "+defaults[0]), err)
	}
}

func TestFilesAreMerged(t *testing.T) {
	folder := writeFiles(t, map[string]string{
		"a.yaml": `
state: a.db
log: {level: warn, format: json}
appliances:
  - name: hq
    url: https://a.example
    api_key: one
    detections: {filter: {types: [a, b]}}
    records: [{name: dns, types: [~dns], interval: 10s}, {name: http}]
sinks:
  - {name: log, file: {path: out.jsonl}, match: "true"}
  - {name: soc, webhook: {url: "https://a.example", headers: {X-A: a, X-B: b}}}
`,
		"conf.d/b.yaml": `
log:
  level: debug
  format:
appliances:
  - name: dc
    url: https://b.example
    api_key_file: key
  - name: hq
    rate_limit: 7
    api_key_file: key
    detections: {filter: {types: [c]}}
    records: [{name: http, interval: 5s}, {name: ssl}]
sinks:
  - {name: "${NAME}", webhook: {headers: {X-B: c}}}
  - {name: "-new-", file: {path: out.jsonl}}
`,
		"conf.d/key": "secret",
	})
	config, err := Load(Source{Paths: []string{filepath.Join(folder, "a.yaml"), filepath.Join(folder, "conf.d")}, Environ: []string{"NAME=soc"}})
	require.NoError(t, err)
	hq, headers := config.Appliances[0], config.Sinks[1].Webhook.Headers
	for what, ok := range map[string]bool{
		"a value is replaced":                              config.Log.Level == "debug",
		"a key without a value changes nothing":            config.Log.Format == "json",
		"an item is merged by its name":                    len(config.Appliances) == 2 && hq.RateLimit == 7 && hq.URL == "https://a.example",
		"an item with another name is appended":            config.Appliances[1].Name == "dc",
		"a file of a secret replaces its value":            hq.APIKey.value == nil && hq.APIKey.File == filepath.Join(folder, "conf.d", "key"),
		"a list of values is replaced":                     slices.Equal(hq.Detections.Filter.Types, []string{"c"}),
		"items within items are merged":                    len(hq.Records) == 3 && hq.Records[1].Interval.String() == "5s" && hq.Records[0].Types[0] == "~dns",
		"a name is expanded before it is compared":         len(config.Sinks) == 3 && config.Sinks[1].Name == "soc",
		"headers are merged by name":                       len(headers) == 2 && *headers["X-A"].value == "a" && *headers["X-B"].value == "c",
		"a path is relative to the folder of its own file": config.Sinks[0].File.Path == filepath.Join(folder, "out.jsonl") && config.Sinks[2].File.Path == filepath.Join(folder, "conf.d", "out.jsonl"),
		"the state too":                                    config.State == filepath.Join(folder, "a.db"),
	} {
		assert.True(t, ok, "not so", what, config)
	}
}

func TestErrorsOfMergedFiles(t *testing.T) {
	for _, test := range []struct {
		name, second string
		want         []string
	}{
		{"a value of the second file", "log: {level: loud}", []string{"b.yaml:1:14: log.level:"}},
		{"an item that is merged has the index of the first file", "sinks: [{name: b, file: {path: 'x'}}, {name: s, probe: 0}]", []string{"b.yaml:1:56: sinks[0].probe: is 0s"}},
		{"a name twice in one file", "sinks: [{name: s}, {name: s, file: {path: x}}]", []string{`b.yaml:1:27: sinks[1].name: "s" is also the name of sinks[0]`}},
		{"a key twice in one file", "state: a\nstate: b", []string{"b.yaml:2:1: state: is set twice"}},
		{"both forms of a secret in one file", "appliances: [{name: hq, api_key: a, api_key_file: KEY}]", []string{"b.yaml:1:34: appliances[0].api_key: is set, and so is api_key_file"}},
		{"errors come in the order of the files", "log: {level: loud}\nlogs: {}", []string{"a.yaml:1:1: colour:", "b.yaml:1:14: log.level:", "b.yaml:2:1: logs:"}},
		{"a file that is not YAML", "log: {", []string{"b.yaml:1:6: is not YAML: the { is not closed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := sink(`file: {path: "-"}`)
			if strings.Contains(test.name, "order") {
				first = "colour: red\n" + first
			}
			folder := writeFiles(t, map[string]string{"a.yaml": first, "b.yaml": strings.ReplaceAll(test.second, "KEY", writeFile(t, "k"))})
			_, err := Load(Source{Paths: []string{folder}})
			for i := range test.want {
				test.want[i] = filepath.Join(folder, test.want[i])
			}
			wantErrors(t, err, test.want)
		})
	}
}

func TestRelativePaths(t *testing.T) {
	folder := writeFiles(t, map[string]string{
		"ndrbridge.yaml": `
appliances: [{name: hq, url: "https://a.example", api_key_file: keys/hq, tls: {ca_file: "${FOLDER}/ca.pem"}}]
sinks:
  - {name: out, file: {path: "-"}}
  - {name: archive, file: {path: ./out.jsonl}}
  - {name: soc, webhook: {url: "https://a.example", sign: {secret_files: [keys/sign]}, headers: {x_file: keys}}}
`,
		"keys/hq": "secret", "keys/sign": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "keys/ca.pem": "x",
	})
	elsewhere := t.TempDir()
	t.Chdir(elsewhere)
	path, err := filepath.Rel(elsewhere, filepath.Join(folder, "ndrbridge.yaml"))
	require.NoError(t, err)
	config, err := Load(Source{Paths: []string{path}, Environ: []string{"FOLDER=keys", "NDRBRIDGE_SINKS_1_FILE_PATH=other.jsonl"}, WithoutSecrets: true})
	require.NoError(t, err)
	alone, err := Load(Source{Environ: []string{
		"NDRBRIDGE_STATE=other.db", "NDRBRIDGE_APPLIANCES_0_NAME=hq", "NDRBRIDGE_APPLIANCES_0_URL=https://a.example", "NDRBRIDGE_APPLIANCES_0_API_KEY=k",
		"NDRBRIDGE_SINKS_0_NAME=log", "NDRBRIDGE_SINKS_0_FILE_PATH=-",
	}})
	require.NoError(t, err)
	packaged := require.Value(Parse("/etc/ndrbridge/ndrbridge.yaml", []byte(valid), nil))(t)
	to := func(name string) string { return filepath.Join(folder, name) }
	for _, test := range []struct{ what, got, want string }{
		{"the default of the state of a package", packaged.State, "/var/lib/ndrbridge/ndrbridge.db"},
		{"the default of the state", config.State, to("ndrbridge.db")},
		{"the state of the environment", alone.State, filepath.Join(elsewhere, "other.db")},
		{"the file of a secret", config.Appliances[0].APIKey.File, to("keys/hq")},
		{"a path from a variable", config.Appliances[0].TLS.CAFile, to("keys/ca.pem")},
		{"a list of files", config.Sinks[2].Webhook.Sign.SecretFiles[0], to("keys/sign")},
		{"standard output", config.Sinks[0].File.Path, "-"},
		{"a path of the environment", config.Sinks[1].File.Path, "other.jsonl"},
		{"a header", *config.Sinks[2].Webhook.Headers["x_file"].value, "keys"},
	} {
		assert.Equal(t, test.got, test.want, test.what)
	}
}

func TestByteOrderMarkAndWindowsLineEnds(t *testing.T) {
	config := parse(t, "\ufeff"+strings.ReplaceAll("state: x.db"+valid, "\n", "\r\n"))
	assert.True(t, config.State == "x.db" && config.Sinks[0].Name == "log", config)
}
