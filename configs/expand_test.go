package configs

import (
	"strings"
	"testing"

	"ndrbridge/test/assert"
)

func TestExpand(t *testing.T) {
	environment := map[string]string{"A": "one", "EMPTY": "", "REF": "${A}", "_x1": "y"}
	for _, test := range []struct{ text, want, err string }{
		{text: "plain", want: "plain"},
		{text: "${A}", want: "one"},
		{text: "<${A}-${_x1}>", want: "<one-y>"},
		{text: "${NONE:-two}", want: "two"},
		{text: "${EMPTY:-two}", want: "two"},
		{text: "${A:-two}", want: "one"},
		{text: "${EMPTY}", want: ""},
		{text: "${NONE:-}", want: ""},
		{text: "${NONE:-:-{$x}", want: ":-{$x"},
		{text: "${REF}", want: "${A}"},
		{text: "$${A}", want: "${A}"},
		{text: "$$${A}", want: "$${A}"},
		{text: "$${A}${A}", want: "${A}one"},
		{text: "$A $ $$ ${} ${1} ${-} $", want: "$A $ $$ ${} ${1} ${-} $"},
		{text: "${NONE}", err: "the environment variable NONE is not set; set it, or write a default: ${NONE:-default}"},
		{text: "${A", err: "${A is not complete"},
		{text: "${A-x}", err: "${A is not complete"},
		{text: "${A:?x}", err: "write ${A} or ${A:-default}"},
		{text: "${ A}", err: "a blank follows ${; write ${A}"},
		{text: "${NONE:-${A}}", err: "contains ${"},
	} {
		got, _, err := expand(test.text, environment)
		assert.True(t, got == test.want && (err == nil) == (test.err == "") && (err == nil || strings.Contains(err.Error(), test.err)), test.text, "gives", got, err, test.want, test.err)
	}
}

func TestVariablesInFiles(t *testing.T) {
	config := parse(t, `
log: {level: "${LEVEL}"}
shutdown_timeout: ${TIMEOUT}
journal: {max_bytes: "${SIZE}"}
appliances:
  - name: ${NAME}
    url: https://${HOST}
    api_key: ${KEY}
    rate_limit: ${NUMBER}
    unreachable_after: "${NUMBER}"
    audit:
      enabled: ${OFF}
      interval: ${NONE:-}
    records:
      - name: dns
        types: &types ["~${NAME}", '$${NAME}']
        filter: {operator: and, rules: [{field: a, operator: "=", operand: "${NUMBER}"}]}
      - name: other
        types: *types
        filter:
          field: a
          operator: =
          operand: ${NUMBER}
sinks:
  - name: soc
    webhook:
      url: ${URL}
      headers: {X-A: "${INJECTED}"}
      template: |
        {"${NAME}": "{{ $x := 1 }}{{ $x }}"}
    redact: ["${NAME}"]
`, "LEVEL=debug", "TIMEOUT=7s", "SIZE=20MiB", "NAME=hq", "HOST=h.example", "KEY=a: ${NAME} # x", "NUMBER=3", "OFF=false",
		"URL=https://hook.example/secret", "INJECTED=a, X: b}")
	hq, soc := config.Appliances[0], config.Sinks[0]
	for what, ok := range map[string]bool{
		"a value with permitted values":          config.Log.Level == "debug",
		"a duration":                             config.ShutdownTimeout.String() == "7s",
		"a size":                                 config.Journal.MaxBytes == 20*MiB,
		"a name":                                 hq.Name == "hq",
		"a part of a URL":                        hq.URL == "https://h.example",
		"a secret, whose text is not read again": *hq.APIKey.value == "a: ${NAME} # x",
		"a number":                               hq.RateLimit == 3,
		"a whole number in quotes":               hq.UnreachableAfter == 3,
		"a boolean":                              !hq.Audit.Enabled,
		"an empty value keeps the default":       hq.Audit.Interval.String() == "30s",
		"an item of a list":                      hq.Records[0].Types[0] == "~hq" && hq.Records[0].Types[1] == "${NAME}",
		"a value that is used twice":             hq.Records[1].Types[0] == "~hq" && hq.Records[1].Types[1] == "${NAME}",
		"text in a filter":                       hq.Records[0].Filter.Rules[0].Operand.json == `"3"`,
		"a number in a filter":                   hq.Records[1].Filter.Operand.json == "3",
		"a URL":                                  soc.Webhook.URL.Value() == "https://hook.example/secret",
		"a header":                               *soc.Webhook.Headers["X-A"].value == "a, X: b}" && len(soc.Webhook.Headers) == 1,
		"a template, whose own variables stay":   soc.Webhook.Template == "{\"hq\": \"{{ $x := 1 }}{{ $x }}\"}\n",
	} {
		assert.True(t, ok, "not so", what, config)
	}
	var printed strings.Builder
	err := Print(&printed, config)
	assert.True(t, err == nil && !strings.Contains(printed.String(), "# x") && !strings.Contains(printed.String(), "/secret"), err, "it prints", &printed)
}

func TestErrorsOfVariables(t *testing.T) {
	for _, test := range []struct {
		name, file string
		want       []string
	}{
		{"a variable that is not set", "state: ${NONE}" + valid, []string{"f.yaml:1:8: state: the environment variable NONE is not set; set it, or write a default: ${NONE:-default}"}},
		{"in a secret", strings.Replace(valid, "api_key: k", `api_key: "${NONE}"`, 1), []string{"appliances[0].api_key: the environment variable NONE is not set"}},
		{"in a filter", appliance(`records: [{name: a, filter: {field: a, operator: "=", operand: "${NONE}"}}]`), []string{"appliances[0].records[0].filter.operand: the environment variable NONE"}},
		{"text for a number", appliance(`rate_limit: "${TEXT}"`), []string{`appliances[0].rate_limit: "text" is not a number`}},
		{"text for a boolean", appliance(`audit: {enabled: "${TEXT}"}`), []string{`appliances[0].audit.enabled: "text" is neither true nor false`}},
		{"a list from a variable", sink(`kafka: {brokers: "${TEXT}"}`), []string{"sinks[0].kafka.brokers: expected a list, found text"}},
		{"a key", "${LOG}: {level: debug}" + valid, []string{"f.yaml:1:1: …: is not a known key"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(test.file), []string{"TEXT=text", "LOG=log"})
			wantErrors(t, err, test.want)
		})
	}
}

// FuzzExpand checks that text without references stays the same, and that values are
// not expanded again.
func FuzzExpand(f *testing.F) {
	for _, text := range []string{"", "$", "${A}", "$${A}", "${A:-x}", "${A", "$$${A}${", "a${A}b$$"} {
		f.Add(text, "${A}")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		expanded, found, err := expand(text, map[string]string{"A": value})
		assert.True(t, err != nil || strings.Contains(text, "${") || expanded == text, text, "becomes", expanded)
		escaped := strings.ReplaceAll(text, "${", "$${")
		again, reference, err := expand(escaped, nil)
		assert.True(t, err == nil && !reference && again == text, text, "in its escaped form gives", again, err)
		around, _, err := expand("<"+text+"${A}>", map[string]string{"A": value})
		assert.True(t, err != nil || !found || around == "<"+expanded+value+">" || strings.HasSuffix(text, "$"), text, expanded, "alone and", around, "before another")
	})
}
