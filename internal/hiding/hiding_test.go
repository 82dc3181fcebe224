package hiding_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/internal/hiding"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// A detection has a device and an address as offenders, and a device as victim.
const detection = `{"id":12,"mod_time":1774084698715,"type":"port_scan","categories":["sec","sec.recon"],"participants":[
	{"id":1,"role":"offender","object_type":"ipaddr","object_value":"203.0.113.9","external":true},
	{"id":2,"role":"offender","object_type":"device","object_id":4294967296101,"object_value":"10.1.2.3"},
	{"id":3,"role":"victim","object_type":"device","object_id":"102"}]}`

func parse(t require.T, object string) transform.Detection {
	return require.Value(transform.ParseDetection([]byte(object), false))(t)
}

func TestARuleHidesADetection(t *testing.T) {
	const anyone = `"offender":"Any","victim":"any"`
	for name, c := range map[string]struct {
		rule string // without its type, if it begins with a comma
		want hiding.Answer
	}{
		"whoever takes part":                        {`{"detection_type":"port_scan",` + anyone + `}`, hiding.Yes},
		"in a list of types":                        {`{"detection_types":["a","port_scan"],` + anyone + `}`, hiding.Yes},
		"of another type":                           {`{"detection_type":"port",` + anyone + `}`, hiding.No},
		"of the security module":                    {`{"detection_type":"all_security",` + anyone + `}`, hiding.Yes},
		"of the performance module":                 {`{"detection_type":"all_performance",` + anyone + `}`, hiding.No},
		"without a type":                            {`{` + anyone + `}`, hiding.No},
		"depending on its properties":               {`{"detection_type":"port_scan",` + anyone + `,"properties":[{"property":"uris"}]}`, hiding.Maybe},
		"of the offending device":                   {`,"offender":{"object_type":"device","object_id":4294967296101},"victim":"Any"`, hiding.Yes},
		"of a device that is the victim":            {`,"offender":{"object_type":"device","object_id":102},"victim":"Any"`, hiding.No},
		"of a victim whose id is a text":            {`,"offender":"Any","victim":{"object_type":"device","object_id":102}`, hiding.Yes},
		"of an address":                             {`,"offender":{"object_type":"ipaddr","object_value":"203.0.113.9"},"victim":"Any"`, hiding.Yes},
		"of a block":                                {`,"offender":{"object_type":"ipaddr","object_value":["192.0.2.1","10.0.0.0/8"]},"victim":"Any"`, hiding.Yes},
		"of a victim whose address is not known":    {`,"offender":"Any","victim":{"object_type":"ipaddr","object_value":"10.1.2.3"}`, hiding.No},
		"of what is not an address":                 {`,"offender":{"object_type":"ipaddr","object_value":["203.0.113.9","x"]},"victim":"Any"`, hiding.Maybe},
		"of a device group":                         {`,"offender":{"object_type":"device_group","object_id":1},"victim":"Any"`, hiding.Maybe},
		"of a group and a victim that is another":   {`,"offender":{"object_type":"device_group","object_id":1},"victim":{"object_type":"device","object_id":9}`, hiding.No},
		"without saying of whom":                    {``, hiding.Maybe},
		"depending on properties and on the victim": {`,"offender":"Any","victim":{"object_type":"device","object_id":9},"properties":[{}]`, hiding.No},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.HasPrefix(c.rule, "{") {
				c.rule = `{"detection_type":"port_scan"` + c.rule + `}`
			}
			assert.Equal(t, hiding.Parse([]byte(c.rule)).Hides(parse(t, detection)), c.want, c.rule)
		})
	}
	t.Run("of which only the tracked fields are remembered", func(t *testing.T) {
		d := transform.Remembered(12, 1, 1, parse(t, detection).Tracked)
		assert.Equal(t, hiding.Parse([]byte(`{"detection_type":"port_scan",`+anyone+`}`)).Hides(d), hiding.Yes)
		assert.Equal(t, hiding.Parse([]byte(`{"detection_type":"port_scan","offender":{"object_type":"device","object_id":9}}`)).Hides(d), hiding.Maybe)
	})
}

func TestARuleIsMadeToHideADetection(t *testing.T) {
	without := func(role string) string { return strings.ReplaceAll(detection, `"role":"`+role+`"`, `"role":"other"`) }
	for name, c := range map[string]struct {
		scope     hiding.Scope
		detection string
		want      string
	}{
		"of its type": {hiding.Scope{}, detection,
			`port_scan {"object_type":"device","object_id":4294967296101} {"object_type":"device","object_id":102}, device 4294967296101 on device 102`},
		"of its module": {hiding.Scope{AllTypes: true, AnyVictim: true}, detection,
			`all_security {"object_type":"device","object_id":4294967296101} "Any", device 4294967296101 on any`},
		"of the performance module": {hiding.Scope{AllTypes: true, AnyOffender: true}, strings.ReplaceAll(detection, `"sec`, `"perf`),
			`all_performance "Any" {"object_type":"device","object_id":102}, any on device 102`},
		"with any participants": {hiding.Scope{AnyOffender: true, AnyVictim: true}, without("victim"), `port_scan "Any" "Any", any on any`},
		"with an address":       {hiding.Scope{AnyVictim: true}, strings.ReplaceAll(detection, `"device"`, `"other"`), `port_scan {"object_type":"ipaddr","object_value":"203.0.113.9"} "Any", 203.0.113.9 on any`},
		"with everything":       {hiding.Scope{AnyOffender: true, AnyVictim: true, AllTypes: true}, detection, hiding.ErrEverything.Error()},
		"without an offender":   {hiding.Scope{}, without("offender"), "detection 12 has no offender that is a device or has an address: let the offender be any"},
		"without participants":  {hiding.Scope{AnyOffender: true}, `{"id":12,"mod_time":1774084698715,"type":"a"}`, "detection 12 has no victim that is a device or has an address: let the victim be any"},
		"without a type":        {hiding.Scope{}, `{"id":12,"mod_time":1774084698715}`, "detection 12 has no type"},
		"without a module":      {hiding.Scope{AllTypes: true}, `{"id":12,"mod_time":1774084698715,"type":"a"}`, "detection 12 is neither of security nor of performance: hide its type instead"},
	} {
		t.Run(name, func(t *testing.T) {
			d := parse(t, c.detection)
			r, err := c.scope.Of(d)
			if err != nil {
				assert.Equal(t, err.Error(), c.want)
				return
			}
			got := fmt.Sprintf("%s %s %s, %s on %s", r.Types[0], require.Value(json.Marshal(r.Offender))(t), require.Value(json.Marshal(r.Victim))(t), r.Offender, r.Victim)
			assert.Equal(t, got, c.want)
			assert.Equal(t, r.Hides(d), hiding.Yes, got, "hides it")
		})
	}
}

// An appliance hides what the package says that it hides, and shows what it says that it does not,
// whatever the detections and the rule are.
func TestAnApplianceHidesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := standin.New(standin.Options{Seed: 1, Size: 1000})
		server := httptest.NewServer(a)
		defer server.Close()
		do := func(method, path, body string) []byte {
			r := require.Value(http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1"+path, strings.NewReader(body)))(t)
			r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
			r.Header.Set("Content-Type", "application/json")
			resp := require.Value(server.Client().Do(r))(t)
			defer resp.Body.Close()
			var answer json.RawMessage
			if resp.StatusCode >= 300 {
				t.Fatalf("%s %s %s: %s", method, path, body, resp.Status)
			}
			if method == "POST" && strings.HasSuffix(path, "search") {
				require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
			}
			return answer
		}
		shown := func() (detections []transform.Detection) {
			var objects []json.RawMessage
			require.NoError(t, json.Unmarshal(do("POST", "/detections/search", `{"limit":1000}`), &objects))
			for _, object := range objects {
				detections = append(detections, parse(t, string(object)))
			}
			return detections
		}
		var added []standin.Detection
		for i := range rapid.IntRange(1, 8).Draw(t, "detections") {
			d := a.Generate()
			d.ID = int64(i + 1)
			d.Type = rapid.SampledFrom([]string{"port_scan", "hacking_tools"}).Draw(t, "type")
			d.Categories = rapid.SampledFrom([][]string{{"sec"}, {"perf.web"}, {"security"}, nil}).Draw(t, "categories")
			d.Participants = nil
			for k := range rapid.IntRange(0, 3).Draw(t, "participants") {
				p := standin.Participant{
					ID: int64(10*i + k + 1), Role: rapid.SampledFrom([]string{"offender", "victim"}).Draw(t, "role"), ObjectType: "ipaddr",
					ObjectValue: rapid.SampledFrom([]string{"10.1.2.3", "10.9.9.9", "::ffff:10.1.2.3", "2001:db8::7", "fe80::1%eth0", "", "x"}).Draw(t, "address"),
				}
				if rapid.Bool().Draw(t, "device") {
					p.ObjectType, p.ObjectID = "device", rapid.Int64Range(101, 103).Draw(t, "id")
				}
				d.Participants = append(d.Participants, p)
			}
			added = append(added, d)
		}
		// It has each device, so that rules may name it.
		every := a.Generate()
		every.ID, every.Type, every.Participants = 1000, "port_scan", nil
		for id := range int64(3) {
			every.Participants = append(every.Participants, standin.Participant{ID: 1000 + id, Role: "offender", ObjectType: "device", ObjectID: 101 + id})
		}
		a.Add(append(added, every)...)
		criterion := func(role string) string {
			return rapid.SampledFrom([]string{
				`"Any"`, `"Any"`, `{"object_type":"device","object_id":101}`, `{"object_type":"device","object_id":102}`,
				`{"object_type":"ipaddr","object_value":"10.1.2.3"}`, `{"object_type":"ipaddr","object_value":["10.0.0.0/8","2001:db8::/32"]}`,
				`{"object_type":"locality_type","object_locality":"internal"}`,
			}).Draw(t, role)
		}
		rule := fmt.Sprintf(`{"detection_type":%q,"offender":%s,"victim":%s,"expiration":null}`,
			rapid.SampledFrom([]string{"port_scan", "hacking_tools", "all_security", "all_performance"}).Draw(t, "of"), criterion("offender"), criterion("victim"))
		before := shown()
		do("POST", "/detections/rules/hiding", rule)
		visible := make(map[int64]bool)
		for _, d := range shown() {
			visible[d.ID] = true
		}
		for _, d := range before {
			switch answer := hiding.Parse([]byte(rule)).Hides(d); {
			case answer == hiding.Maybe && strings.Contains(rule, "locality_type"):
			case answer == hiding.Maybe || (answer == hiding.Yes) == visible[d.ID]:
				t.Errorf("answer %d about %s, which is visible: %t", answer, d.Participants(), visible[d.ID])
			}
		}
	})
}
