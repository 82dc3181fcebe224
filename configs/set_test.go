package configs

import (
	"strings"
	"testing"
)

const forSets = `
log: {level: warn}
appliances: [{name: hq, url: "https://sensor.example", api_key: k, records: [{name: dns}, {name: http}]}]
sinks: [{name: lake, kafka: {brokers: ["a:1"]}}, {name: log, file: {path: "-"}}]
`

func TestSet(t *testing.T) {
	folder := writeFiles(t, map[string]string{"f.yaml": forSets, "key": "secret"})
	config, err := Load(Source{
		Paths: []string{folder + "/f.yaml"}, Environ: []string{"NDRBRIDGE_LOG_LEVEL=error", "NDRBRIDGE_LOG_FORMAT=json"},
		Set: []string{
			"log.level=info", "log.level=debug", "sinks[lake].kafka.topic=b", "sinks[1].probe=7s", "sinks[lake].kafka.brokers=b:1, c:1",
			"appliances[hq].records[http].interval=9s", "appliances[0].api_key_file=" + folder + "/key",
			"sinks[2].name=bus", "sinks[bus].nats.url=nats://127.0.0.1:4222", "appliances[hq].records[0].filter={field: a, operator: exists}",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, ok := range map[string]bool{
		"it takes precedence over the environment": config.Log.Level == "debug",
		"the environment sets other keys":          config.Log.Format == "json",
		"a key of an item with a name":             config.Sinks[0].Kafka.Topic == "b",
		"a key of an item with an index":           config.Sinks[1].Probe.String() == "7s",
		"a list":                                   len(config.Sinks[0].Kafka.Brokers) == 2,
		"an item of an item":                       config.Appliances[0].Records[1].Interval.String() == "9s",
		"the file of a secret replaces its value":  config.Appliances[0].APIKey.File == folder+"/key" && config.Appliances[0].APIKey.value == nil,
		"an item is added":                         config.Sinks[2].NATS.URL.Value() == "nats://127.0.0.1:4222",
		"a filter":                                 config.Appliances[0].Records[0].Filter.json != "",
	} {
		if !ok {
			t.Errorf("not so: %s: %+v", what, config)
		}
	}
}

func TestSetErrors(t *testing.T) {
	for _, test := range []struct{ option, want string }{
		{"log.level", "--set: expected KEY=VALUE, such as log.level=debug"},
		{"log.levl=debug", "--set: log.levl: is not a known key with a value; did you mean log.level?"},
		{"sinks[lake].kafka.topik=x", "--set: sinks[lake].kafka.topik: is not a known key with a value; did you mean sinks[lake].kafka.topic?"},
		{"sinks[lake]=x", "--set: sinks[lake]: is not a known key with a value"},
		{"sinks.lake.probe=1s", "--set: sinks.lake.probe: is not a known key with a value; write an item of a list as in sinks[0].name"},
		{"appliances[hq].records.0.name=x", "; write an item of a list as in sinks[0].name"},
		{"sinks=[]", "--set: sinks: is not a known key with a value; write an item of a list as in sinks[0].name"},
		{"log.level=", "--set: log.level: has no value; write log.level=VALUE"},
		{"sinks[lake].kafka.topic=a=b", `--set: sinks[0].kafka.topic: "a=b" is not a topic name`},
		{"log.level=loud", `--set: log.level: "loud" is not one of debug, info, warn, error`},
		{"shutdown_timeout=10", `--set: shutdown_timeout: "10" needs a unit`},
		{"sinks[other].probe=1s", `--set: sinks[other].probe: there is no item "other"; write one of lake, log, or an index from 0 on`},
		{"sinks[].probe=1s", `there is no item ""; write one of lake, log`},
		{"sinks[7].probe=1s", "--set: sinks[7].probe: skips an item of the list: sinks[2] is not set"},
		{"appliances[hq].api_key=sesame", "--set: appliances[0].api_key: is not accepted here, because other users can see it in the list of processes; write it into a file and set appliances[0].api_key_file, or set the variable NDRBRIDGE_APPLIANCES_0_API_KEY"},
		{"sinks[0].webhook.headers=A: sesame", "--set: sinks[0].webhook.headers: is not accepted here, because other users can see it in the list of processes; write it into a configuration file, or set the variable NDRBRIDGE_SINKS_0_WEBHOOK_HEADERS"},
		{"appliances[0].proxy=http://u:sesame@proxy", "write it into a configuration file, or set the variable NDRBRIDGE_APPLIANCES_0_PROXY"},
	} {
		t.Run(test.option, func(t *testing.T) {
			_, err := Load(Source{Paths: []string{writeFile(t, forSets)}, Set: []string{test.option}})
			wantErrors(t, err, []string{test.want})
			if strings.Contains(err.Error(), "sesame") {
				t.Error("it shows the secret")
			}
		})
	}
}
