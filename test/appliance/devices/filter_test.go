package devices_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/appliance/devices"
	"ndrbridge/test/require"
)

// now is the time at which the population of tests is made and asked.
const now = 1_772_600_767_890

// population has a device, 77777, with a tag and fields that a client set.
func population() func(id int64) *devices.Device {
	p := devices.NewPopulation("service", now)
	p.See(77777, "2001:db8::7", "laptop.corp.example", now-1000, now)
	p.Change(77777, map[string]any{"custom_name": "Till 1", "custom_criticality": "critical", "model_override": "T-1000"}, now)
	return func(id int64) *devices.Device {
		d := p.Get(id, now)
		if d != nil && id == 77777 {
			d.Tags = []string{"Crown jewels"}
		}
		return d
	}
}

func parse(t *testing.T, text string) (*devices.Filter, error) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	require.NoError(t, d.Decode(&value))
	return devices.ParseFilter(value, now)
}

func TestFilters(t *testing.T) {
	get := population()
	d := get(77777).Fields
	cloud := get(2).Fields // a server in the cloud
	for name, test := range map[string]struct {
		filter string
		id     int64
		want   bool
	}{
		"a name":                               {`{"field":"name","operator":"=","operand":"till 1"}`, 77777, true},
		"any of the names":                     {`{"field":"name","operator":"=","operand":"LAPTOP.corp.example"}`, 77777, true},
		"not a name":                           {`{"field":"name","operator":"!=","operand":"till 1"}`, 77777, false},
		"the start of a name":                  {`{"field":"name","operator":"startswith","operand":"till"}`, 77777, true},
		"a part of a name":                     {`{"field":"name","operator":"~","operand":"ILL"}`, 77777, true},
		"a regular expression":                 {`{"field":"name","operator":"~","operand":{"value":"^Till \\d$","is_regex":true}}`, 77777, true},
		"a regular expression has a case":      {`{"field":"name","operator":"=","operand":{"value":"^till","is_regex":true}}`, 77777, false},
		"one of several names":                 {`{"field":"custom_name","operator":"in","operand":["a","till 1"]}`, 77777, true},
		"an order of texts":                    {`{"field":"custom_name","operator":">=","operand":"t"}`, 77777, true},
		"a name that exists":                   {`{"field":"custom_name","operator":"exists"}`, 77777, true},
		"a missing name":                       {`{"field":"cdp_name","operator":"not_exists"}`, 77777, true},
		"a name in DNS":                        {`{"field":"dns_name","operator":"=","operand":"host9.corp.example"}`, 9, true},
		"a name in CDP":                        {`{"field":"cdp_name","operator":"startswith","operand":"gw1"}`, 1, true},
		"a name in DHCP":                       {`{"field":"dhcp_name","operator":"=","operand":"host3"}`, 3, true},
		"a name in NetBIOS":                    {`{"field":"netbios_name","operator":"=","operand":"host3"}`, 3, true},
		"a discovery id":                       {fmt.Sprintf(`{"field":"discovery_id","operator":"=","operand":%q}`, d["discovery_id"]), 77777, true},
		"an address":                           {`{"field":"ipaddr","operator":"=","operand":"2001:DB8:0::7"}`, 77777, true},
		"a block of addresses":                 {`{"field":"ipaddr","operator":"=","operand":"10.32.0.0/16"}`, 9, true},
		"one of several addresses":             {`{"field":"ipaddr","operator":"in","operand":["192.0.2.1","2001:db8:0::7"]}`, 77777, true},
		"the start of an address":              {`{"field":"ipaddr","operator":"startswith","operand":"10.32."}`, 9, true},
		"a hardware address without colons":    {fmt.Sprintf(`{"field":"macaddr","operator":"=","operand":%q}`, strings.ToLower(strings.ReplaceAll(d["macaddr"].(string), ":", ""))), 77777, true},
		"a vendor":                             {`{"field":"vendor","operator":"=","operand":"example networks"}`, 1, true},
		"a model that a user set":              {`{"field":"model","operator":"=","operand":"T-1000"}`, 77777, true},
		"a tag":                                {`{"field":"tag","operator":"=","operand":"crown jewels"}`, 77777, true},
		"no tag":                               {`{"field":"tag","operator":"not_exists"}`, 9, true},
		"an activity":                          {`{"field":"activity","operator":"=","operand":"cdp"}`, 1, true},
		"the software":                         {`{"field":"software","operator":"=","operand":"router_os_4_1"}`, 1, true},
		"a sensor by its UUID":                 {fmt.Sprintf(`{"field":"node","operator":"=","operand":%q}`, devices.NodeUUID(6)), 6<<32 + 1, true},
		"the role":                             {`{"field":"role","operator":"=","operand":"gateway"}`, 1, true},
		"a VLAN":                               {`{"field":"vlan","operator":"=","operand":10}`, 1, true},
		"a greater VLAN":                       {`{"field":"vlan","operator":">","operand":10}`, 1, false},
		"one of several VLANs":                 {`{"field":"vlan","operator":"in","operand":[20,10]}`, 1, true},
		"a time of discovery":                  {fmt.Sprintf(`{"field":"discover_time","operator":"=","operand":{"from":0,"until":%d}}`, now), 9, true},
		"critical devices":                     {`{"field":"is_critical","operator":"=","operand":true}`, 77777, true},
		"active devices":                       {`{"field":"is_active","operator":"=","operand":true}`, 77777, true},
		"silent devices":                       {`{"field":"is_active","operator":"!=","operand":true}`, 3, true},
		"the level of analysis":                {`{"field":"analysis","operator":"=","operand":"advanced"}`, 77777, true},
		"internal devices":                     {`{"field":"network_locality_type","operator":"=","operand":"internal"}`, 77777, true},
		"a locality":                           {`{"field":"network_locality_id","operator":"=","operand":2}`, 77777, true},
		"an instance":                          {fmt.Sprintf(`{"field":"instance_id","operator":"=","operand":%q}`, cloud["cloud_instance_id"]), 2, true},
		"the name of an instance":              {`{"field":"instance_name","operator":"=","operand":"host2"}`, 2, true},
		"the type of an instance":              {`{"field":"instance_type","operator":"~","operand":"large"}`, 2, true},
		"an account":                           {fmt.Sprintf(`{"field":"cloud_account","operator":"=","operand":%q}`, cloud["cloud_account"]), 2, true},
		"a private cloud":                      {`{"field":"vpc_id","operator":"exists"}`, 2, true},
		"an id":                                {`{"field":"id","operator":"=","operand":9}`, 9, true},
		"an id that is not in a list":          {`{"field":"id","operator":"not_in","operand":[1,9]}`, 9, false},
		"all rules":                            {`{"operator":"and","rules":[{"field":"id","operator":">","operand":8},{"field":"id","operator":"<","operand":10}]}`, 9, true},
		"one of several rules":                 {`{"operator":"or","rules":[{"field":"id","operator":"=","operand":8},{"field":"id","operator":"=","operand":9}]}`, 9, true},
		"none of several rules":                {`{"operator":"not","rules":[{"field":"id","operator":"=","operand":8},{"field":"id","operator":"=","operand":9}]}`, 9, false},
		"rules of rules":                       {`{"operator":"not","rules":[{"operator":"and","rules":[{"field":"id","operator":"=","operand":9},{"field":"tag","operator":"exists"}]}]}`, 9, true},
		"one of several VLANs is not a device": {`{"field":"vlan","operator":"in","operand":[]}`, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := require.Value(parse(t, test.filter))(t)
			if got := f.Matches(get(test.id)); got != test.want {
				t.Errorf("it is %t that %s matches device %d: %v", got, test.filter, test.id, get(test.id).Fields)
			}
		})
	}
}

// names are the fields of filters.
var names = strings.Fields(`name discovery_id ipaddr macaddr vendor tag activity node vlan discover_time role dns_name
	dhcp_name netbios_name cdp_name custom_name software model is_critical instance_id instance_name instance_type
	cloud_account vpc_id subnet_id is_active analysis network_locality_type network_locality_id id colour`)

var operators = strings.Fields("> < <= >= = != startswith and or not exists not_exists ~ !~ in not_in ?")

// drawn generates filters, of which many are wrong.
func drawn(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		scalar := rapid.OneOf(
			rapid.SampledFrom([]any{"gateway", "host7", "10.32.0.0/24", "10.32.0.8", "advanced", "internal", "02:", "", true, false, nil, json.Number("7"), json.Number("1e999"), json.Number("0.5")}),
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Int64(), func(n int64) any { return json.Number(fmt.Sprint(n)) }),
		)
		f := map[string]any{}
		if rapid.IntRange(0, 9).Draw(t, "has an operator") > 0 {
			f["operator"] = rapid.SampledFrom(operators).Draw(t, "operator")
		}
		operator, _ := f["operator"].(string)
		if combined := slices.Contains([]string{"and", "or", "not"}, operator); combined && depth > 0 {
			f["rules"] = rapid.SliceOfN(drawn(depth-1), 0, 3).Draw(t, "rules")
			return f
		}
		f["field"] = rapid.SampledFrom(names).Draw(t, "field")
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			f["operand"] = rapid.SliceOfN(scalar, 0, 3).Draw(t, "list")
		case 1:
			f["operand"] = map[string]any{"value": scalar.Draw(t, "value"), "is_regex": rapid.Bool().Draw(t, "is a regular expression")}
		case 2:
			f["operand"] = map[string]any{"from": scalar.Draw(t, "from"), "until": scalar.Draw(t, "until")}
		default:
			f["operand"] = scalar.Draw(t, "operand")
		}
		return f
	})
}

func TestFiltersFollowTheAlgebraOfSets(t *testing.T) {
	get := population()
	all := []int64{1, 2, 3, 4, 5, 7, 8, 77777, 3<<32 + 1, 6<<32 + 3}
	selected := func(f *devices.Filter) map[int64]bool {
		found := make(map[int64]bool)
		for _, id := range all {
			if f.Matches(get(id)) {
				found[id] = true
			}
		}
		return found
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn(2).Draw(t, "a"), drawn(2).Draw(t, "b")
		fa, err := devices.ParseFilter(a, now)
		if err != nil {
			return // it did not panic
		}
		fb, err := devices.ParseFilter(b, now)
		if err != nil {
			b, fb = a, fa
		}
		combined := func(operator string) map[int64]bool {
			f, err := devices.ParseFilter(map[string]any{"operator": operator, "rules": []any{a, b}}, now)
			require.NoError(t, err, operator, "of filters that are right")
			return selected(f)
		}
		inA, inB := selected(fa), selected(fb)
		both, some, none := combined("and"), combined("or"), combined("not")
		for _, id := range all {
			require.True(t, both[id] == (inA[id] && inB[id]) && some[id] == (inA[id] || inB[id]) && none[id] != some[id], id, inA[id], inB[id], both[id], some, none)
		}
		if ids, restricted := fa.IDs(); restricted {
			for id := range inA {
				require.True(t, slices.Contains(ids, id), "the filter matches device", id, "but has only", ids)
			}
		}
	})
}
