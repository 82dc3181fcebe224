package splunk_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTheReadmeHasAConfigurationThatLoadsAndEveryEventType(t *testing.T) {
	text := require.Value(os.ReadFile("README.md"))(t)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Equal(t, len(blocks), 1, "there are … blocks of YAML")
	file := strings.Replace(blocks[0][1], "key_file: /run/secrets/hec", "key: secret", 1) +
		"\n   appliances: [{name: hq, url: \"https://sensor.example\", api_key: k}]\n"
	config := require.Value(configs.Parse("README.md", []byte(file), nil))(t)
	s := config.Sinks[0]
	assert.True(t, s.Webhook.Preset == "splunk_hec" && s.Webhook.SourceType == "" && s.Format == "cloudevents", "the add-on does not read what sink", s, "sends")
	for name := range readConf(t, "default/eventtypes.conf") {
		assert.Contains(t, string(text), "`"+name+"`", "it does not have event type", name)
	}
}
