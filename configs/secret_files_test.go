package configs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestSecretFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	text := fmt.Sprintf(`
appliances: [{name: hq, url: "https://sensor.example", api_key_file: %[1]s, tls: {ca_file: %[1]s, cert_file: %[1]s, key_file: %[1]s}}]
sinks:
  - {name: hook, webhook: {url: "https://hooks.example", sign: {secret_files: [%[1]s]}}}
  - {name: bus, nats: {url: "nats://127.0.0.1", creds_file: %[1]s}}
`, file)
	path := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	config, err := configs.Load(configs.Source{Paths: []string{path}, WithoutSecrets: true}) // they are not certificates
	require.NoError(t, err)
	var keys []string
	for _, f := range config.SecretFiles() {
		assert.Equal(t, f.Path, file, f.Key, "is")
		keys = append(keys, f.Key)
	}
	want := []string{"appliances[0].api_key_file", "appliances[0].tls.key_file", "sinks[0].webhook.sign.secret_files[0]", "sinks[1].nats.creds_file"}
	assert.EqualSlices(t, keys, want)
}

func TestSecretsThatAreWrittenInTheConfiguration(t *testing.T) {
	folder := t.TempDir()
	first, second := filepath.Join(folder, "1.yaml"), filepath.Join(folder, "2.yaml")
	for path, text := range map[string]string{
		first: `
appliances: [{name: hq, url: "https://sensor.example", api_key: k}, {name: lab, url: "https://lab.example", api_key: "${KEY}"}]
tickets: {webhooks: {jira: {secret: replaced}}}
`,
		second: `
sinks:
  - {name: hook, webhook: {url: "https://hooks.example/T0/secret", headers: {Accept: "*/*", X-Key: x}, sign: {secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}}}
  - {name: bus, nats: {url: "nats://127.0.0.1", token_file: none}}
`,
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	found, err := configs.WrittenSecrets(configs.Source{Paths: []string{first, second}, Environ: []string{"KEY=k", "NDRBRIDGE_TICKETS_WEBHOOKS_JIRA_SECRET=other"}})
	want := []configs.SecretFile{
		{Key: "appliances[0].api_key", Path: first}, {Key: "sinks[0].webhook.url", Path: second},
		{Key: "sinks[0].webhook.headers.X-Key", Path: second}, {Key: "sinks[0].webhook.sign.secrets[0]", Path: second},
	}
	assert.NoError(t, err)
	assert.EqualSlices(t, found, want)
}

func TestSecretsNeedNotBeReadableIfNothingIsContacted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	text := `
appliances: [{name: hq, url: "https://h", api_key_file: /nonexistent/key, tls: {ca_file: /nonexistent/ca}}]
sinks: [{name: s, webhook: {url: "https://h", auth: {bearer_file: /nonexistent/b}, sign: {secret_files: [/nonexistent/s]}}}]
`
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	_, err := configs.Load(configs.Source{Paths: []string{file}})
	assert.True(t, err != nil && strings.Count(err.Error(), "/nonexistent/") >= 3, "with secrets", err)
	_, err = configs.Load(configs.Source{Paths: []string{file}, WithoutSecrets: true})
	assert.NoError(t, err, "without secrets")
}
