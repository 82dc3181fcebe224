package tuning

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/require"
)

func decode(t testing.TB, text string) resource.Object {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var object resource.Object
	require.NoError(t, d.Decode(&object))
	return object
}

func TestPropertyOperators(t *testing.T) {
	properties := decode(t, `{
		"tool": "Kali Linux", "port": 443, "text_port": "443", "ports": ["SSH:22", "SSH:2222"],
		"peers": {"type": "ipaddr", "value": ["10.1.2.3", "2001:db8::1"]}, "flag": true, "nothing": null, "empty": []
	}`)
	for _, test := range []struct {
		property, operator, operand string
		want                        bool
	}{
		{"tool", "=", `"Kali Linux"`, true},
		{"tool", "=", `"kali linux"`, false},
		{"tool", "=", `{"value":"kali linux","case_sensitive":false}`, true},
		{"tool", "=", `{"value":"kali linux","case_sensitive":true}`, false},
		{"tool", "!=", `"Kali Linux"`, false},
		{"tool", "!=", `"Kali"`, true},
		{"tool", "~", `"Linux"`, true},
		{"tool", "~", `"linux"`, false},
		{"tool", "~", `{"value":"LINUX","case_sensitive":false}`, true},
		{"tool", "!~", `"Linux"`, false},
		{"tool", "!~", `"Windows"`, true},
		{"tool", "=", `{"value":"K.*","is_regex":true}`, true},
		{"tool", "=", `{"value":"K|L","is_regex":true}`, false},
		{"tool", "~", `{"value":"^l|x$","is_regex":true}`, true},
		{"tool", "=", `{"value":"k.*","is_regex":true,"case_sensitive":false}`, true},
		{"tool", "!~", `{"value":"[0-9]","is_regex":true}`, true},
		{"tool", "in", `{"value":["a","Kali Linux"]}`, true},
		{"tool", "in", `"Kali Linux"`, true},
		{"tool", "in", `{"value":["a","b"]}`, false},
		{"port", "=", `443`, true},
		{"port", "=", `4.43e2`, true},
		{"port", "=", `"443"`, true},
		{"port", "!=", `80`, true},
		{"port", "in", `{"value":[80,443]}`, true},
		{"port", "~", `44`, true},
		{"text_port", "=", `443`, true},
		{"ports", "=", `"SSH:22"`, true},
		{"ports", "!=", `"SSH:22"`, false},
		{"ports", "!=", `"SSH:23"`, true},
		{"peers", "=", `"10.1.2.3"`, true},
		{"peers", "in", `"10.0.0.0/8"`, true},
		{"peers", "in", `{"value":["192.0.2.0/24","2001:db8::/32"]}`, true},
		{"peers", "in", `"192.0.2.0/24"`, false},
		{"flag", "=", `"true"`, true},
		{"nothing", "!=", `"x"`, false},
		{"empty", "!=", `"x"`, false},
		{"absent", "!=", `"x"`, false},
		{"absent", "!~", `"x"`, false},
	} {
		filter := fmt.Sprintf(`{"property":%q,"operator":%q,"operand":%s}`, test.property, test.operator, test.operand)
		p, err := compileProperty(decode(t, filter))
		if err != nil {
			t.Fatalf("%s: %v", filter, err)
		}
		if got := p.matches(properties); got != test.want {
			t.Errorf("%s matches: %t", filter, got)
		}
	}
}

// An operator and its negation split the detections that have the property.
func TestNegation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		operand := map[string]any{
			"value":          rapid.StringMatching(`([aAbB.][*]?|[|]){0,3}`).Draw(t, "operand"),
			"is_regex":       rapid.Bool().Draw(t, "is_regex"),
			"case_sensitive": rapid.Bool().Draw(t, "case_sensitive"),
		}
		values := rapid.SliceOfN(rapid.StringMatching(`[aAbB.]{0,4}`), 1, 3).Draw(t, "values")
		property := make([]any, len(values))
		for i, value := range values {
			property[i] = value
		}
		for _, operator := range []string{"=", "~"} {
			compiled := map[string]bool{}
			for _, o := range []string{operator, "!" + operator} {
				p, err := compileProperty(resource.Object{"property": "p", "operator": o, "operand": operand})
				require.NoError(t, err)
				compiled[o] = p.matches(map[string]any{"p": property})
				if p.matches(nil) {
					t.Fatalf("%s matches a property that is absent", o)
				}
			}
			if compiled[operator] == compiled["!"+operator] {
				t.Fatalf("%s and its negation say %t of %q", operator, compiled[operator], values)
			}
		}
	})
}

func TestDeviceGroups(t *testing.T) {
	rule, err := Compile(decode(t, `{"detection_type":"x","enabled":true,"offender":{"object_type":"device_group","object_id":4},"victim":"Any"}`))
	require.NoError(t, err)
	subject := &Subject{Participants: []Participant{{Role: "offender", Device: 7}, {Role: "victim", Device: 8}, {Role: "victim"}}}
	for member, want := range map[int64]bool{7: true, 8: false} {
		participants, ok := rule.Match(subject, func(group, device int64) bool { return group == 4 && device == member })
		if ok != want || ok && participants != 3 {
			t.Errorf("with the member %d it matches: %t, %d participants", member, ok, participants)
		}
	}
	if groups := rule.Groups(); len(groups) != 1 || groups[0] != 4 {
		t.Errorf("it refers to %v", groups)
	}
}
