package configs

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// Secrets of the form that signatures take, of 24 bytes each.
const (
	oldSignSecret = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk"
	newSignSecret = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3"
)

func TestWebhookKeyErrors(t *testing.T) {
	const at = "sinks[0].webhook"
	missing := filepath.Join(t.TempDir(), "none")
	for _, test := range []struct {
		name, webhook string
		want          []string // one error each: what its line contains
	}{
		{"a secret that signs nothing", `sign: {secrets: [s3cret]}`, []string{"f.yaml:2:64: " + at + ".sign.secrets[0]: is not valid base64 after the optional whsec_; write whsec_"}},
		{"a secret that is too short", `sign: {secrets: [` + oldSignSecret + `, whsec_c2hvcnQ=]}`, []string{at + ".sign.secrets[1]: is 5 bytes long when decoded; it must be 24 to 64"}},
		{"a file that holds none", `sign: {secret_files: [` + writeFile(t, "s3cret\n") + `]}`, []string{at + ".sign.secret_files[0]: is not valid base64 after the optional whsec_"}},
		{"a file that is not there", `sign: {secrets: [` + oldSignSecret + `], secret_files: [` + missing + `]}`, []string{at + ".sign.secret_files[0]: " + missing + ": no such file"}},
		{"signatures of what is compressed", `gzip: true, sign: {secrets: [` + oldSignSecret + `]}`, []string{"f.yaml:2:65: " + at + ".sign: cannot be combined with gzip"}},
		{"signatures for a chat", `preset: slack, sign: {secrets: [` + oldSignSecret + `]}`, []string{at + ".sign: is not supported by preset slack, whose service does not check signatures"}},
		{"signatures for an index, which is sent compressed by default", `preset: datadog, key: k, sign: {secrets: [` + oldSignSecret + `]}`, []string{at + ".sign: is not supported by preset datadog"}},
		{"a signature by hand", `headers: {webhook-signature: x}, sign: {secrets: [` + oldSignSecret + `]}`, []string{at + ".headers.webhook-signature: is set, and so is sign, which sets that header"}},
		{"bodies without a byte", `max_body_bytes: 0`, []string{at + ".max_body_bytes: is 0"}},
		{"a template that cannot be read", `template: "a\n{{.event.id"`, []string{"f.yaml:2:57: " + at + ".template: line 2 of the template: unclosed action"}},
		{"a function that is none", `template: "{{shout .event.id}}"`, []string{at + `.template: line 1 of the template: function "shout" not defined`}},
		{"a template that makes no JSON", `template: "{{.detection.title}}"`, []string{at + ".template: for a sample of detections: the output of the template is not valid JSON: byte 1"}},
		{"a mistake in the template's file", `template_file: ` + writeFile(t, "{{end}}"), []string{at + ".template_file: line 1 of the template: unexpected {{end}}"}},
		{"a template's file that is not there", `template_file: ` + missing, []string{at + ".template_file: " + missing}},
		{"a template twice", `template: "1", template_file: ` + writeFile(t, "2"), []string{at + ".template: is set, and so is template_file; keep one of them"}},
		{"a template for a chat", `preset: slack, template: "{}"`, []string{"f.yaml:2:72: " + at + ".template: sets the body, and so does preset slack; keep one of them"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(sink(`webhook: {url: "https://h", `+test.webhook+`}`)), nil)
			errs, _ := err.(Errors)
			require.Equal(t, len(errs), len(test.want), "errors", err)
			for i, want := range test.want {
				assert.Contains(t, errs[i].Error(), want, errs[i])
			}
			assert.NotContains(t, err.Error(), "s3cret", "an error shows a secret", err)
		})
	}
	for _, mode := range []string{"binary", "batch"} {
		t.Run("a template goes with no other mode: "+mode, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(sink(`mode: `+mode+`, webhook: {url: "https://h", template: "{}"}`)), nil)
			assert.ErrorContains(t, err, at+".template: sets the body, and so does mode "+mode)
		})
	}
}

func TestTemplateBodyIsJSONUnlessContentTypeDiffers(t *testing.T) {
	for _, test := range []struct {
		headers string
		json    bool
	}{
		{``, true},
		{`content-type: text/plain`, false},
		{`Content-Type: application/json; charset=utf-8`, true},
		{`Content-Type: application/vnd.soc+json`, true},
		{`X-Team: soc`, true},
	} {
		t.Run(test.headers, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(sink(`webhook: {url: "https://h", template: "{{.event.id}}", headers: {`+test.headers+`}}`)), nil)
			assert.Equal(t, err != nil, test.json, err)
		})
	}
}

func TestSignaturesMayHaveSeveralSecrets(t *testing.T) {
	file := writeFile(t, newSignSecret+"\n")
	literal := sink(`webhook: {url: "https://h", sign: {secrets: [` + oldSignSecret + `], secret_files: [` + file + `]}}`)
	for _, test := range []struct {
		name, file string
		environ    []string
	}{
		{"in the file", literal, nil},
		{"in the environment", sink(`webhook: {url: "https://h"}`), []string{
			"NDRBRIDGE_SINKS_0_WEBHOOK_SIGN_SECRETS=" + oldSignSecret, "NDRBRIDGE_SINKS_0_WEBHOOK_SIGN_SECRET_FILES=" + file,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, test.file, test.environ...).Sinks[0]
			got, err := s.Webhook.Sign.Read()
			want := []string{oldSignSecret, newSignSecret}
			assert.True(t, err == nil && reflect.DeepEqual(got, want), got, err)
			assert.DeepEqual(t, FilesIn(s), []string{file}, "the files are")
		})
	}
	t.Run("none is printed", func(t *testing.T) {
		printedText := printed(t, parse(t, literal))
		text := printedText
		assert.True(t, !strings.Contains(text, "whsec_") && strings.Contains(text, file) && strings.Contains(text, hidden), "it prints", text)
	})
}

func TestWebhookURLFileErrors(t *testing.T) {
	const at = "sinks[0].webhook."
	for _, test := range []struct{ name, webhook, want string }{
		{"both", `url: "https://h", url_file: ` + writeFile(t, "https://h/s3cret"), at + "url: is set, and so is url_file; keep one of them"},
		{"a file that is not there", `url_file: /nonexistent/url`, at + "url_file: /nonexistent/url: no such file"},
		{"an empty file", `url_file: ` + writeFile(t, "\n"), "is empty; write the secret into it"},
		{"two lines", `url_file: ` + writeFile(t, "https://h/s3cret\nhttps://h/s3cret\n"), "has a line break"},
		{"no scheme", `url_file: ` + writeFile(t, "h/s3cret"), at + "url_file: has no scheme; write https://"},
		{"another scheme", `url_file: ` + writeFile(t, "ftp://h/s3cret"), at + "url_file: has a scheme that cannot be used here"},
		{"a URL that the preset refuses", `preset: splunk_hec, key: k, url_file: ` + writeFile(t, "https://h/s3cret"), at + "url: has a path other than that of an event collector"},
		{"neither", `gzip: true`, at + "url: is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(sink(`webhook: {`+test.webhook+`}`)), nil)
			errs, _ := err.(Errors)
			require.Equal(t, len(errs), 1, "errors:", err)
			assert.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "s3cret", "an error shows a secret", err)
		})
	}
}

func TestWebhookURLInAFile(t *testing.T) {
	for _, webhook := range []string{`url_file: FILE`, `preset: slack, url_file: FILE`, `preset: pagerduty, key: k, url_file: FILE`} {
		file := writeFile(t, "https://hooks.example/s3cret\n")
		config := require.Value(Parse("f.yaml", []byte(sink(`webhook: {`+strings.Replace(webhook, "FILE", file, 1)+`}`)), nil))(t)
		s := config.Sinks[0]
		assert.Equal(t, require.Value(s.Webhook.ReadURL())(t).Value(), "https://hooks.example/s3cret")
		assert.Equal(t, s.Target(), "hooks.example")
		var printed strings.Builder
		require.NoError(t, Print(&printed, config))
		assert.Contains(t, printed.String(), "url_file: "+file)
		assert.NotContains(t, printed.String()+s.Summary(), "s3cret")
		assert.True(t, slices.Contains(FilesIn(s), file), "a change of the file reloads nothing")
		secrets := config.SecretFiles()
		assert.Equal(t, secrets[len(secrets)-1].Key, "sinks[0].webhook.url_file")
	}
	_, err := Load(Source{Paths: []string{writeFile(t, sink(`webhook: {preset: elasticsearch, url_file: /nonexistent/url}`))}, WithoutSecrets: true})
	assert.NoError(t, err, "the URL is needed although nothing is contacted")
}

func TestExamplesThatAreLeftAreErrors(t *testing.T) {
	const still = "is still the example that config new wrote; fill in your own value"
	for _, test := range []struct{ name, sink, at string }{
		{"a URL", `webhook: {url: "https://REPLACE.service.example/x"}`, "sinks[0].webhook.url"},
		{"a host", `webhook: {url: "https://siem.example.com:8088/x"}`, "sinks[0].webhook.url"},
		{"the second broker", `kafka: {brokers: [a.example:9092, kafka.example.com], topic: t}`, "sinks[0].kafka.brokers[1]"},
		{"an address", `syslog: {address: "example.com:514"}`, "sinks[0].syslog.address"},
		{"an account", `webhook: {url: "https://h.example", auth: {username: ndrbridge@example.com, password: p}}`, "sinks[0].webhook.auth.username"},
		{"other hosts", `webhook: {url: "https://my-example.com/example.company"}`, ""},
		{"a name that ends otherwise", `webhook: {url: "https://example.com.au/"}`, ""},
		{"an expression", `file: {path: "-"}, match: 'detection.title == "example.com"'`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(sink(test.sink)), nil)
			if test.at == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, test.at+": "+still)
		})
	}
}
