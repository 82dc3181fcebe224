package configs

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestRecordFilter(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"none":                         {"{}", "null"},
		"a field":                      {`{field: qname, operator: "=", operand: example}`, `{"field":"qname","operator":"=","operand":"example"}`},
		"an operator without quotes":   {`{field: qname, operator: =, operand: example}`, `{"field":"qname","operator":"=","operand":"example"}`},
		"an operand with its type":     {`{field: ex.isSuspicious, operator: "=", operand: {type: boolean, value: "true"}}`, `{"field":"ex.isSuspicious","operator":"=","operand":{"type":"boolean","value":"true"}}`},
		"numbers as they are written":  {`{field: a, operator: in, operand: [1.10, 9007199254740993, -1e3, 1e999]}`, `{"field":"a","operator":"in","operand":[1.10,9007199254740993,-1e3,1e999]}`},
		"several with their type":      {`{field: a, operator: not_in, operand: {type: number, value: [1, 2]}}`, `{"field":"a","operator":"not_in","operand":{"type":"number","value":[1,2]}}`},
		"text that looks like more":    {`{field: a, operator: in, operand: ["1.10", 'true', 2026-01-31, "null"]}`, `{"field":"a","operator":"in","operand":["1.10","true","2026-01-31","null"]}`},
		"truths":                       {`{field: a, operator: "!=", operand: true}`, `{"field":"a","operator":"!=","operand":true}`},
		"special fields":               {`{field: .ipaddr, operator: "=", operand: 192.0.2.1}`, `{"field":".ipaddr","operator":"=","operand":"192.0.2.1"}`},
		"a field that is there":        {`{field: a, operator: exists}`, `{"field":"a","operator":"exists"}`},
		"rules within rules":           {`{operator: and, rules: [{operator: not, rules: [{field: a, operator: exists}]}, {field: b, operator: "~", operand: x}]}`, `{"operator":"and","rules":[{"operator":"not","rules":[{"field":"a","operator":"exists"}]},{"field":"b","operator":"~","operand":"x"}]}`},
		"text that JSON has to escape": {`{field: a, operator: "=", operand: "\"\\\n"}`, `{"field":"a","operator":"=","operand":"\"\\\n"}`},
	} {
		t.Run(name, func(t *testing.T) {
			config := parse(t, appliance("records: [{name: x, filter: "+c.file+"}]"))
			got := require.Value(config.Appliances[0].Records[0].Filter.MarshalJSON())(t)
			assert.Equal(t, string(got), c.want)
		})
	}
}

func TestRecordFilterErrors(t *testing.T) {
	deep := strings.Repeat(`{operator: not, rules: [`, 17) + `{field: a, operator: exists}` + strings.Repeat(`]}`, 17)
	for _, test := range []struct{ name, filter, want string }{
		{"text", "x", "records[0].filter: expected keys with values, found text; its keys are field, operator, operand, rules"},
		{"a list", "[a]", "records[0].filter: expected keys with values, found a list; its keys are field"},
		{"an unknown key", "{field: a, operator: exists, opernd: 1}", "records[0].filter.opernd: is not a known key; did you mean operand?"},
		{"a key set twice", `{field: a, field: b, operator: exists}`, "records[0].filter.field: is set twice"},
		{"no operator", "{field: a}", "records[0].filter.operator: is missing; write one of =, !=,"},
		{"an unknown operator", `{field: a, operator: "==", operand: 1}`, `records[0].filter.operator: "==" is not one of =, !=, >, <, >=, <=, ~, !~, startswith, in, not_in, exists, not_exists, and, or, not`},
		{"a list for an operator", `{field: a, operator: ["="], operand: 1}`, "records[0].filter.operator: expected text, found a list"},
		{"no field", `{operator: "=", operand: 1}`, "records[0].filter.field: is missing; the operator = needs it"},
		{"an empty field", `{field: "", operator: exists}`, "records[0].filter.field: is missing; the operator exists needs it"},
		{"a list for a field", `{field: [1], operator: exists}`, "records[0].filter.field: expected text, found a list"},
		{"no operand", `{field: a, operator: "="}`, "records[0].filter.operand: is missing; the operator = needs it"},
		{"an operand too many", `{field: a, operator: exists, operand: 1}`, "records[0].filter.operand: cannot be combined with the operator exists"},
		{"one value for several", `{field: a, operator: in, operand: 1}`, "records[0].filter.operand: expected a list"},
		{"several values for one", `{field: a, operator: "=", operand: [1]}`, "expected a value, found a list"},
		{"an unknown key of an operand", `{field: a, operator: "=", operand: {type: x, value: 1, is_regex: true}}`, "records[0].filter.operand.is_regex: is not a known key"},
		{"an operand within an operand", `{field: a, operator: "=", operand: {type: x, value: {type: x, value: 1}}}`, "records[0].filter.operand.value: expected a value, found keys with values"},
		{"an operand that holds itself", `{field: a, operator: "=", operand: &o {type: x, value: *o}}`, "records[0].filter.operand.value: expected a value"},
		{"no value", `{field: a, operator: "=", operand: {type: x}}`, "has no type or no value; write {type"},
		{"nothing for a value", `{field: a, operator: "=", operand: null}`, "expected a value, found nothing"},
		{"a number that is none of JSON's", `{field: a, operator: "=", operand: 0x10}`, `"0x10" cannot be written in JSON`},
		{"rules without a list", "{operator: and, rules: {}}", "records[0].filter.rules: expected a list, found keys with values"},
		{"no rule", "{operator: and, rules: []}", "records[0].filter.rules: is missing; the operator and needs it"},
		{"a field beside rules", "{operator: and, field: a, rules: [{field: a, operator: exists}]}", "records[0].filter.field: cannot be combined with the operator and"},
		{"a wrong rule", `{operator: or, rules: [{field: a, operator: exists}, {field: b}]}`, "records[0].filter.rules[1].operator: is missing"},
		{"rules that nest too deep", deep, "nests deeper than 20 blocks"},
		{"a filter that holds itself many times", `&f {operator: or, rules: [*f, *f, *f, *f, *f, *f, *f, *f]}`, "is one block too many; write at most 30000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(appliance("records: [{name: x, filter: "+test.filter+"}]")), nil)
			assert.True(t, err != nil && strings.Contains(err.Error(), "f.yaml:2:") && strings.Contains(err.Error(), test.want), err, "want one with", test.want)
		})
	}
}

// filterOf returns a configuration with the filter of a record query, which a variable holds.
func filterOf(text string) (*Config, error) {
	return Parse("f.yaml", []byte(appliance("records: [{name: x}]")), []string{"NDRBRIDGE_APPLIANCES_0_RECORDS_0_FILTER=" + text})
}

// What is read as a filter is JSON that reads as the same filter.
func FuzzRecordFilter(f *testing.F) {
	f.Add(`{"operator": "or", "rules": [{"field": ".port", "operator": "in", "operand": [53, 1.10]}]}`)
	f.Add("field: a\noperator: '='\noperand: &o {type: x, value: '\x7f'}")
	f.Fuzz(func(t *testing.T, text string) {
		one, err := filterOf(text)
		if err != nil {
			return
		}
		b := require.Value(one.Appliances[0].Records[0].Filter.MarshalJSON())(t)
		require.True(t, json.Valid(b), text, "becomes")
		again, err := filterOf(string(b))
		require.True(t, err == nil && reflect.DeepEqual(again, one), text, "becomes", string(b), "read as", again, err)
	})
}

// drawFilter draws the JSON of a filter.
func drawFilter(t *rapid.T, depth int) string {
	quoted := func(text string) string { return jsonText(text) }
	value := func() string {
		return rapid.OneOf(
			rapid.Map(rapid.String(), quoted),
			rapid.SampledFrom([]string{"true", "1.10", "9007199254740993", "-0.250", "1e999", "123456789012345678901234567890"}),
		).Draw(t, "value")
	}
	operator := rapid.SampledFrom(slices.Concat(comparisons, listed, existence, logical)).Draw(t, "operator")
	switch {
	case depth == 0 || strings.HasSuffix(operator, "exists"):
		return `{"field":"a","operator":"exists"}`
	case operator == "and" || operator == "or" || operator == "not":
		rules := drawFilter(t, depth-1)
		for range rapid.IntRange(0, 2).Draw(t, "rules") {
			rules += "," + drawFilter(t, depth-1)
		}
		return `{"operator":` + quoted(operator) + `,"rules":[` + rules + `]}`
	case strings.HasSuffix(operator, "in"):
		return `{"field":"a","operator":` + quoted(operator) + `,"operand":[` + value() + "," + value() + `]}`
	}
	return `{"field":` + quoted("x"+rapid.String().Draw(t, "field")) + `,"operator":` + quoted(operator) + `,"operand":{"type":"t","value":` + value() + `}}`
}

func TestAnyRecordFilterIsPrintedAsItLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawFilter(t, 3)
		config, err := filterOf(text)
		require.NoError(t, err, text)
		f := config.Appliances[0].Records[0].Filter
		config.Appliances[0].APIKey = NewSecret("k")
		printedText := printed(t, config)
		again, err := Parse("f.yaml", []byte(printedText), nil)
		require.NoError(t, err, "in", printedText)
		got := again.Appliances[0].Records[0].Filter
		require.True(t, reflect.DeepEqual(got, f), f, "becomes", got, "by way of", printedText)
	})
}
