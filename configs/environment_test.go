package configs

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestEnvironmentAlone(t *testing.T) {
	config, err := Load(Source{Environ: []string{
		"PATH=/bin",
		"NDRBRIDGE_APPLIANCES_0_NAME=hq",
		"NDRBRIDGE_APPLIANCES_0_URL=https://sensor.example",
		"NDRBRIDGE_APPLIANCES_0_API_KEY_FILE=" + writeFile(t, "k\n"),
		"NDRBRIDGE_APPLIANCES_1_NAME=dc",
		"NDRBRIDGE_APPLIANCES_1_URL=https://dc.example",
		"NDRBRIDGE_APPLIANCES_1_API_KEY=two words",
		"NDRBRIDGE_APPLIANCES_1_DETECTIONS_START=-1w",
		"NDRBRIDGE_APPLIANCES_1_DETECTIONS_FILTER_TYPES=a, b",
		"NDRBRIDGE_APPLIANCES_1_TLS_INSECURE_SKIP_VERIFY=true",
		"NDRBRIDGE_APPLIANCES_1_PROXY=http://user:pass@proxy",
		"NDRBRIDGE_APPLIANCES_1_DETECTIONS_ENRICH=devices,link",
		"NDRBRIDGE_APPLIANCES_1_AUDIT_ENABLED=false",
		"NDRBRIDGE_APPLIANCES_1_RECORDS_0_NAME=dns",
		"NDRBRIDGE_APPLIANCES_1_RECORDS_0_TYPES=~dns, ~http",
		`NDRBRIDGE_APPLIANCES_1_RECORDS_0_FILTER={"field": ".port", "operator": "in", "operand": [53, 1.10]}`,
		"NDRBRIDGE_SINKS_0_NAME=lake",
		"NDRBRIDGE_SINKS_0_KAFKA_BROKERS=a:1, b:2,",
		"NDRBRIDGE_SINKS_0_KAFKA_TLS_INSECURE_SKIP_VERIFY=false",
		"NDRBRIDGE_SINKS_0_BATCH_MAX_BYTES=2MiB",
		"NDRBRIDGE_SINKS_1_NAME=soc",
		"NDRBRIDGE_SINKS_1_WEBHOOK_URL=https://hook",
		"NDRBRIDGE_SINKS_1_WEBHOOK_HEADERS=X-A: b:c, X-D: e",
	}})
	require.NoError(t, err)
	hq, dc, lake, soc := config.Appliances[0], config.Appliances[1], config.Sinks[0], config.Sinks[1]
	hqKey, _ := hq.APIKey.Read()
	dcKey, _ := dc.APIKey.Read()
	query := dc.Records[0]
	filter, _ := query.Filter.MarshalJSON()
	for what, ok := range map[string]bool{
		"a secret in a file":        hqKey == "k",
		"a secret":                  dcKey == "two words",
		"defaults":                  hq.Timeout == Duration(30*time.Second) && dc.RateLimit == 5,
		"a start":                   dc.Detections.Start.String() == "-1w",
		"a list":                    slices.Equal(dc.Detections.Filter.Types, []string{"a", "b"}),
		"what to enrich":            slices.Equal(dc.Detections.Enrich, []string{"devices", "link"}),
		"a stream that is off":      hq.Audit.Enabled && !dc.Audit.Enabled,
		"a query":                   query.Name == "dns" && slices.Equal(query.Types, []string{"~dns", "~http"}) && query.PageSize == 1000,
		"a filter":                  string(filter) == `{"field":".port","operator":"in","operand":[53,1.10]}`,
		"a truth":                   dc.TLS.InsecureSkipVerify,
		"a URL":                     dc.Proxy.Value() == "http://user:pass@proxy",
		"an option with a list":     slices.Equal(lake.Kafka.Brokers, []string{"a:1", "b:2"}),
		"the defaults of an option": lake.Kafka.Compression == "zstd",
		"an option in an option":    lake.Kafka.TLS != nil,
		"a size":                    lake.Batch.MaxBytes == 2*MiB,
		"headers":                   reflect.DeepEqual(soc.Webhook.Headers, map[string]Secret{"X-A": NewSecret("b:c"), "X-D": NewSecret("e")}),
	} {
		assert.True(t, ok, what, "was not read", config, lake.Kafka)
	}
}

func TestEnvironmentOverFile(t *testing.T) {
	const file = `
log: {level: debug, format: json}
appliances:
  - {name: hq, url: "https://a", api_key_file: /none, rate_limit: 7}
  - {name: dc, url: "https://b", api_key: k, rate_limit: 8, records: [{name: x, filter: {field: a, operator: "=", operand: 1}}]}
sinks:
  - {name: lake, kafka: {brokers: ["a:1", "b:1"], acks: one}}
  - {name: soc, webhook: {url: "https://h", headers: {X-A: a, X-B: b}}}
`
	config := parse(t, file,
		"NDRBRIDGE_LOG_LEVEL=warn",
		"NDRBRIDGE_LOG_FORMAT=",
		"NDRBRIDGE_APPLIANCES_0_API_KEY=k",
		"NDRBRIDGE_APPLIANCES_1_RATE_LIMIT=9",
		"NDRBRIDGE_APPLIANCES_1_AUDIT_ENABLED=0",
		"NDRBRIDGE_SINKS_0_KAFKA_BROKERS=c:1",
		"NDRBRIDGE_SINKS_1_WEBHOOK_HEADERS=X-C: c",
		"NDRBRIDGE_SINKS_2_NAME=log",
		"NDRBRIDGE_SINKS_2_FILE_PATH=-",
		`NDRBRIDGE_APPLIANCES_1_RECORDS_0_FILTER={"field":"b","operator":"exists"}`,
	)
	filter, _ := config.Appliances[1].Records[0].Filter.MarshalJSON()
	for what, ok := range map[string]bool{
		"a variable goes over the file":       config.Log.Level == "warn",
		"an empty variable sets nothing":      config.Log.Format == "json",
		"a secret overrides its file variant": config.Appliances[0].APIKey.File == "" && config.Appliances[0].APIKey.IsSet(),
		"an item keeps its other values":      config.Appliances[1].RateLimit == 9 && config.Appliances[1].URL == "https://b",
		"0 is false":                          !config.Appliances[1].Audit.Enabled && config.Appliances[0].Audit.Enabled,
		"a filter is replaced":                string(filter) == `{"field":"b","operator":"exists"}`,
		"another item keeps all":              config.Appliances[0].RateLimit == 7,
		"a list is replaced":                  slices.Equal(config.Sinks[0].Kafka.Brokers, []string{"c:1"}),
		"a block keeps its other values":      config.Sinks[0].Kafka.Acks == "one",
		"headers are replaced":                len(config.Sinks[1].Webhook.Headers) == 1,
		"an item is added":                    len(config.Sinks) == 3 && config.Sinks[2].File.Path == "-" && config.Sinks[2].Mode == "structured",
	} {
		assert.True(t, ok, "not so", what, config)
	}
}

func TestEmptyVariablesAreIgnored(t *testing.T) {
	without := parse(t, valid)
	for name, variable := range map[string]string{
		"of an option":           "NDRBRIDGE_SINKS_0_KAFKA_TLS_CA_FILE=",
		"of a new item":          "NDRBRIDGE_SINKS_1_NAME=",
		"of an item after a gap": "NDRBRIDGE_SINKS_5_NAME=",
	} {
		t.Run(name, func(t *testing.T) {
			assert.DeepEqual(t, parse(t, valid, variable), without)
		})
	}
}

func TestEnvironmentErrors(t *testing.T) {
	for _, test := range []struct {
		name    string
		environ []string
		want    []string
	}{
		{"an unknown variable", []string{"NDRBRIDGE_LOG_LEVL=info"}, []string{"NDRBRIDGE_LOG_LEVL: is not a known variable; did you mean NDRBRIDGE_LOG_LEVEL?"}},
		{"an unknown variable, even an empty one", []string{"NDRBRIDGE_FOO="}, []string{"NDRBRIDGE_FOO: is not a known variable"}},
		{"an unknown variable of an item", []string{"NDRBRIDGE_SINKS_0_KAFKA_BROKER=a:1"}, []string{"did you mean NDRBRIDGE_SINKS_0_KAFKA_BROKERS?"}},
		{"a block as a variable", []string{"NDRBRIDGE_LOG=info"}, []string{"NDRBRIDGE_LOG: is not a known variable"}},
		{"a list as a variable", []string{"NDRBRIDGE_SINKS=x", "NDRBRIDGE_SINKS_0_=y"}, []string{"NDRBRIDGE_SINKS: is", "NDRBRIDGE_SINKS_0_: is"}},
		{"an index that is none", []string{"NDRBRIDGE_SINKS_00_NAME=x", "NDRBRIDGE_SINKS_-1_NAME=x"}, []string{"SINKS_00_NAME: is not", "SINKS_-1_NAME: is not"}},
		{"an index that skips an item", []string{"NDRBRIDGE_SINKS_2_NAME=x"}, []string{"NDRBRIDGE_SINKS_2_NAME: sinks[2]: skips an item of the list: sinks[1] is not set"}},
		{"a huge index", []string{"NDRBRIDGE_SINKS_999999999_NAME=x"}, []string{"skips an item"}},
		{"a bad duration", []string{"NDRBRIDGE_SHUTDOWN_TIMEOUT=20"}, []string{`NDRBRIDGE_SHUTDOWN_TIMEOUT: shutdown_timeout: "20" needs a unit`}},
		{"a bad number in an item", []string{"NDRBRIDGE_APPLIANCES_0_UNREACHABLE_AFTER=x"}, []string{`NDRBRIDGE_APPLIANCES_0_UNREACHABLE_AFTER: appliances[0].unreachable_after: "x" is not a whole number`}},
		{"a number that is too large", []string{"NDRBRIDGE_APPLIANCES_0_UNREACHABLE_AFTER=9999999999"}, []string{"fits 32 bits"}},
		{"a bad truth", []string{"NDRBRIDGE_APPLIANCES_0_DETECTIONS_ENABLED=maybe"}, []string{`"maybe" is neither true nor false`}},
		{"no number at all", []string{"NDRBRIDGE_APPLIANCES_0_RATE_LIMIT=NaN"}, []string{"NDRBRIDGE_APPLIANCES_0_RATE_LIMIT: appliances[0].rate_limit: is NaN"}},
		{"headers that are none", []string{"NDRBRIDGE_SINKS_1_WEBHOOK_HEADERS=a", "NDRBRIDGE_SINKS_1_WEBHOOK_URL=https://h", "NDRBRIDGE_SINKS_1_NAME=x"}, []string{"NDRBRIDGE_SINKS_1_WEBHOOK_HEADERS: sinks[1].webhook.headers: expected name: value"}},
		{"a value that is not allowed", []string{"NDRBRIDGE_LOG_FORMAT=xml"}, []string{`NDRBRIDGE_LOG_FORMAT: log.format: "xml" is not one of text, json`}},
		{"an item of a list that the file had right", []string{"NDRBRIDGE_APPLIANCES_0_DETECTIONS_ENRICH=users"}, []string{"NDRBRIDGE_APPLIANCES_0_DETECTIONS_ENRICH: appliances[0].detections.enrich[0]:"}},
		{"a filter that is none", []string{"NDRBRIDGE_APPLIANCES_0_RECORDS_0_NAME=x", `NDRBRIDGE_APPLIANCES_0_RECORDS_0_FILTER={"operator": "and", "rules": [{"field": "a"}]}`}, []string{
			"NDRBRIDGE_APPLIANCES_0_RECORDS_0_FILTER: appliances[0].records[0].filter.rules[0].operator: is missing; write one of"}},
		{"a filter that cannot be read", []string{"NDRBRIDGE_APPLIANCES_0_RECORDS_0_NAME=x", "NDRBRIDGE_APPLIANCES_0_RECORDS_0_FILTER={"}, []string{"records[0].filter: is neither JSON nor YAML; write a filter such as"}},
		{"both of a secret", []string{"NDRBRIDGE_ADMIN_TOKEN=a", "NDRBRIDGE_ADMIN_TOKEN_FILE=/none"}, []string{"NDRBRIDGE_ADMIN_TOKEN: admin.token: is set, and so is token_file"}},
		{"a file that is missing", []string{"NDRBRIDGE_ADMIN_TOKEN_FILE=/none"}, []string{"NDRBRIDGE_ADMIN_TOKEN_FILE: admin.token_file: /none: no such file"}},
		{"what a new item lacks", []string{"NDRBRIDGE_SINKS_1_FILE_PATH=x"}, []string{"sinks[1].name: is missing; set it, or the variable NDRBRIDGE_SINKS_1_NAME"}},
		{"several at once, in one list too", []string{"NDRBRIDGE_SINKS_0_PROBE=x", "NDRBRIDGE_SINKS_0_START=x", "NDRBRIDGE_APPLIANCES_0_TIMEOUT=x", "NDRBRIDGE_STAT=x"}, []string{
			"NDRBRIDGE_SINKS_0_PROBE", "NDRBRIDGE_SINKS_0_START", "NDRBRIDGE_APPLIANCES_0_TIMEOUT", "NDRBRIDGE_STAT"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(appliance("detections: {enrich: [link]}")), test.environ)
			wantErrors(t, err, test.want)
			assert.True(t, err == nil || !strings.Contains(err.Error(), "f.yaml"), "blames the file", err)
		})
	}
}

func TestEnvironmentLeavesOthersAlone(t *testing.T) {
	parse(t, valid,
		"NDRBRIDGE_CONFIG=f.yaml",
		"NDRBRIDGE_TEST_KAFKA=a:1",
		"NDRBRIDGE_SERVICE_HOST=10.0.0.1",
		"NDRBRIDGE_SERVICE_PORT=9600",
		"NDRBRIDGE_SERVICE_PORT_ADMIN=9600",
		"NDRBRIDGE_PORT=tcp://10.0.0.1:9600",
		"NDRBRIDGE_PORT_9600_TCP=tcp://10.0.0.1:9600",
		"NDRBRIDGE_PORT_9600_TCP_ADDR=10.0.0.1",
		"NDRBRIDGE_PORT_9600_TCP_PORT=9600",
		"NDRBRIDGE_PORT_9600_TCP_PROTO=tcp",
		"NDRBRIDGE_METRICS_SERVICE_HOST=10.0.0.1",
		"NDRBRIDGE_METRICS_PORT=tcp://10.0.0.1:9600",
		"NDRBRIDGER=x",
		"ndrbridge_state=x",
		"nonsense",
	)
}

// Every key can be set by its variable, to something that the file could say.
func TestEveryKeyHasItsVariable(t *testing.T) {
	all := reflect.New(reflect.TypeFor[Config]()).Elem()
	fill(all)
	eachField("", all, func(path string, f field, _ reflect.Value) {
		if f.shape >= shapeBlock {
			return
		}
		want, text := reflect.New(f.typ).Elem(), sample(f.typ)
		value := want
		switch {
		case f.shape == shapeTexts:
			want.Set(reflect.MakeSlice(f.typ, 1, 1))
			value = want.Index(0)
		case f.shape == shapeMap:
			value = reflect.New(f.typ.Elem()).Elem()
		}
		if own, is := value.Addr().Interface().(*operand); is {
			*own = operand{json: text}
		} else if err := setText(value, strings.TrimPrefix(text, "A: ")); err != nil {
			t.Fatal(err)
		}
		if f.shape == shapeMap {
			want.Set(reflect.MakeMap(f.typ))
			want.SetMapIndex(reflect.ValueOf("A"), value)
		}
		wants := map[string]any{path: want.Interface()}
		if f.shape == shapeSecret {
			wants[path+fileSuffix] = Secret{File: text}
		}
		for key, want := range wants {
			p, config, _ := decode(nil, Source{Environ: []string{variableOf(key) + "=" + text}})
			set := false
			eachField("", reflect.ValueOf(config).Elem(), func(other string, _ field, value reflect.Value) {
				set = set || other == path && reflect.DeepEqual(value.Interface(), want)
			})
			if !set || len(p.errors) > 0 {
				t.Errorf("%s=%s does not set %s: %v", variableOf(key), text, key, p.errors)
			}
		}
	})
}

// fill sets every option of a block, and puts an item into every list of blocks.
func fill(block reflect.Value) {
	for _, f := range fieldsOf(block.Type()) {
		value := block.FieldByIndex(f.index)
		switch f.shape {
		case shapeBlock:
			fill(value)
		case shapeOption:
			value.Set(reflect.New(f.typ.Elem()))
			fill(value.Elem())
		case shapeBlocks:
			if f.typ.Elem() == block.Type() {
				continue // rules within rules
			}
			value.Set(reflect.MakeSlice(f.typ, 1, 1))
			fill(value.Index(0))
		}
	}
}

// sample is text for a value of the type that no key has by default.
func sample(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[Duration]():
		return "3w"
	case reflect.TypeFor[Size]():
		return "77TiB"
	case reflect.TypeFor[Start]():
		return "-3w"
	case reflect.TypeFor[operand]():
		return "77"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Float64:
		return "77"
	case reflect.Bool:
		return "true"
	case reflect.Map:
		return "A: b"
	}
	return "sample"
}
