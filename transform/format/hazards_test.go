package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ndrbridge/transform"
)

// wrong are values for fields that expect something else.
var wrong = map[string]string{
	"a text":               `"some text"`,
	"an empty text":        `""`,
	"a number":             `12.5`,
	"a negative number":    `-1`,
	"a huge number":        `1e999`,
	"more than 64 bits":    `18446744073709551617`,
	"true":                 `true`,
	"null":                 `null`,
	"an object":            `{"a":1,"id":"x","value":7}`,
	"an array":             `[1,"a",null,[{}],{"id":3,"name":[]}]`,
	"an empty object":      `{}`,
	"an empty array":       `[]`,
	"an array of null":     `[null]`,
	"an array of objects":  `[{"id":{},"name":7,"url":"x y","role":[],"object_value":12,"hostname":{},"username":[1]},{}]`,
	"a surrogate":          `"\ud800 and \udc00\ud83d"`,
	"control characters":   `"\u0000\u0001\u001b[31m\u007f\u0085\u2028\ufeff"`,
	"line breaks":          `"a\r\nb\nc\td"`,
	"reserved characters":  `"a|b=c\\d\\|e\\=f \"g\" 'h' ^i \\\\ %j {k} [l] <m>"`,
	"an invalid address":   `"300.1.2.3"`,
	"an address with zone": `"fe80::1%eth0"`,
	"an invalid time":      `253402300800000`,
}

// wrongTypes are objects with wrong values in all fields, and in each field.
func (c *collector) wrongTypes() {
	recordTypes := slices.Sorted(maps.Keys(recordSources))
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		value := wrong[name]
		keep := []string{"id", "mod_time"}
		c.detection("detection/all members are "+name, replaced(detectionObject, value, 1, keep...), created)
		c.detection("detection/all values are "+name, replaced(detectionObject, value, 9, append(keep, "role")...), created)
		c.audit("audit/all members are "+name, replaced(`{"id":7,"time":1773480413000,"occur_time":1773480413000,"body":{}}`, value, 1, "id"))
		c.audit("audit/all values are "+name, replaced(`{"id":7,"time":1773480413000,"body":{"operation":"Login","user":"x","component":"x","details":"x"}}`, value, 2, "id", "time"))
		for _, recordType := range recordTypes {
			source := recordSources[recordType][0]
			c.record(fmt.Sprintf("record/%s: all values are %s", recordType, name), recordObject(recordType, replaced(source, value, 1)))
			c.record(fmt.Sprintf("record/%s: all inner values are %s", recordType, name), recordObject(recordType, replaced(source, value, 9, "type")))
		}
		c.record("record/all members are "+name, replaced(recordObject("~http", "{}"), value, 1))
		for _, member := range slices.Sorted(maps.Keys(members(detectionObject))) {
			if !slices.Contains(keep, member) {
				c.detection(fmt.Sprintf("detection/%s is %s", member, name), with(detectionObject, member, value), created)
			}
		}
		for kind, member := range map[string][2]string{
			"hidden":   {"visibility", `{"state":"x","rules":[{"id":1,"description":"x","author":"x"}],"explanation":"x"}`},
			"noted":    {"note", `{"text":"x","author":"x","time":1}`},
			"context":  {"context", `{"devices":[{"id":1,"name":"x","ipaddr":"x","critical":true,"on_watchlist":true,"tags":["x"]}]}`},
			"evidence": {"evidence", `{"from":1,"until":1,"total":1,"truncated":true,"records":[{"_id":"x","_source":{"clientAddr":"x"}}]}`},
		} {
			c.followUp("follow-up/"+kind+": the member is "+name, detectionObject, kind, member[0], value)
			c.followUp("follow-up/"+kind+": all members are "+name, detectionObject, kind, member[0], replaced(member[1], value, 1))
			c.followUp("follow-up/"+kind+": all values are "+name, detectionObject, kind, member[0], replaced(member[1], value, 9))
		}
		c.add("own/data is "+name, ownEvent(value), nil)
	}
}

// ownEvent returns an own event with any data.
func ownEvent(data string) transform.Event {
	e, err := transform.New(transform.Attributes{
		ID: "appliance.reachable-1", Source: "ndrbridge://hq/events", Type: "io.ndrbridge.appliance.reachable", Subject: "hq", Time: recorded,
		PartitionKey: "hq", Appliance: "hq", RecordedTime: recorded,
	}, []byte(data))
	if err != nil {
		panic(err)
	}
	return e
}

// replaced returns a JSON object with all values replaced down to a depth, except those
// with some names.
func replaced(object, value string, depth int, except ...string) string {
	m := members(object)
	for name, old := range m {
		if !slices.Contains(except, name) {
			m[name] = replacedValue(old, value, depth-1, except)
		}
	}
	return encodeMembers(m)
}

func replacedValue(old json.RawMessage, value string, depth int, except []string) json.RawMessage {
	switch {
	case depth > 0 && old[0] == '{':
		return json.RawMessage(replaced(string(old), value, depth, except...))
	case depth > 0 && old[0] == '[':
		var elements []json.RawMessage
		if err := json.Unmarshal(old, &elements); err != nil {
			panic(err)
		}
		var texts [][]byte
		for _, element := range elements {
			texts = append(texts, replacedValue(element, value, depth-1, except))
		}
		return slices.Concat([]byte{'['}, bytes.Join(texts, []byte{','}), []byte{']'})
	}
	return json.RawMessage(value)
}

// oddities are objects that are hard to encode for other reasons.
func (c *collector) oddities() {
	long := strings.Repeat("x", 100<<10)
	deep := strings.Repeat(`{"a":[`, 2500) + strings.Repeat(`]}`, 2500)
	for name, change := range map[string][]string{
		"long texts":             {"title", `"` + long + `"`, "description", `"` + long + `é"`, "type", `"` + long + `"`, "assignee", `"` + long + `"`},
		"a long text of escapes": {"title", `"` + strings.Repeat(`\n\u0007\\\"`, 10<<10) + `"`},
		"a long URL":             {"url", `"https://sensor.example/` + long + `"`},
		"deep nesting":           {"properties", deep, "participants", `[` + deep + `]`, "categories", deep},
		"an unknown deep member": {"unknown", deep},
		"URLs that are none":     {"url", `"javascript:alert(1)"`, "ticket_url", `"not a url"`},
		"a relative URL":         {"url", `"#/detections/detail/1"`},
		"many categories":        {"categories", `["` + strings.Repeat(`c","`, 5000) + `d"]`},
		"many techniques":        {"mitre_techniques", `[` + strings.Repeat(`{"id":"T1048","name":"x"},`, 3000) + `"T1"]`},
		"techniques of all forms": {"mitre_techniques", `["T1048","t1048.001",{"id":"T1"},{"name":"only a name"},{"url":"only an url"},{},null,7,["T2"],{"id":"1110","name":"Brute Force","legacy_ids":["T1110"]},{"id":"","name":""}]`,
			"mitre_tactics", `["TA0001",{"id":"001"},{"name":"x"},{},null,7,["TA0002"]]`},
		"participants of all forms":  {"participants", `[{},null,7,"10.0.0.1",["10.0.0.2"],{"role":"witness","object_value":"10.0.0.3","hostname":"c.example","object_id":9,"username":"carl","external":true},{"object_value":["10.0.0.4","10.0.0.5"]},{"role":"offender","hostname":"a.example"},{"role":"victim","username":"b"},{"object_id":5},{"object_id":"6"},{"object_type":"network_locality","object_id":7},{"object_type":"ipaddr","object_value":"10.0.0.0/8"},{"usernames":["c",7,{}],"origins":"10.0.0.9"},{"role":"offender","object_value":"10.0.0.1","object_value":"10.0.0.2"}]`},
		"properties as participants": {"properties", `"10.0.0.1"`, "participants", `{"role":"offender","object_value":"10.0.0.1"}`},
		"names with odd characters":  {"a.b", `1`, "", `2`, "a\"b", `3`, "ü\u0001", `4`, "detection.title", `5`, "$x", `6`, "_id", `7`},
		"ports that are none":        {"properties", `{"client_port":65536,"server_port":-1}`},
		"ports as texts":             {"properties", `{"client_port":"443","server_port":"http"}`},
		"times that are none":        {"start_time", `-5`, "end_time", `"2026-03-14T09:26:53Z"`, "update_time", `1e300`, "create_time", `0.5`},
		"whole ids as floats":        {"appliance_id", `1.0`, "risk_score", `83.0`},
		"a fractional risk score":    {"risk_score", `83.7`},
		"a title of everything":      {"title", `"Scan|by=ada\\ \\|\\= \r\n\t\u0000 \ud83d\ude00 \ud83d %s ${x} {{y}} <script>'\"^"`},
	} {
		c.detection("detection/"+name, with(detectionObject, change...), created)
	}
	var participants []string
	for i := range 4000 {
		participants = append(participants, fmt.Sprintf(`{"id":%d,"role":%q,"object_type":"ipaddr","object_value":"10.%d.%d.%d","hostname":"host%d.example"}`,
			i, []string{"offender", "victim"}[i%2], i>>16&255, i>>8&255, i&255, i))
	}
	c.detection("detection/thousands of participants", with(detectionObject, "participants", `[`+strings.Join(participants, ",")+`]`), created)
	c.detection("detection/names twice", `{"id":1,"mod_time":1773479898715,"title":"a","title":"b","risk_score":12,"risk_score":"x","properties":{"p":1,"p":2},"other":1,"other":2}`, created)
	c.detection("detection/names twice, then null", `{"id":1,"mod_time":1773479898715,"title":"a","title":null}`, created)
	c.detection("detection/white space", "{ \"id\" : 1 ,\r\n \"mod_time\" : 1773479898715 ,\n\"title\" : \"a\" ,\t\"properties\" : {\r\n \"a\" : [ 1 ,\n 2 ] } }", created)
	c.detection("detection/escaped names", `{"id":1,"mod_time":1773479898715,"t\u0069tle":"escaped","\u0069d":2}`, created)

	c.audit("audit/long text", `{"id":7,"time":1773480413000,"body":{"operation":"Login","user":"`+long+`","details":"`+long+`"}}`)
	c.audit("audit/deep nesting", `{"id":7,"time":1773480413000,"body":`+deep+`}`)
	c.audit("audit/names twice", `{"id":7,"time":1773480413000,"body":{"operation":"Login","operation":"Logout","user":"a","user":"b"}}`)
	c.audit("audit/reserved characters", `{"id":7,"time":1773480413000,"body":{"operation":"Lo|g=in\\","user":"a\tb\nc","details":"=|\\\r\n","component":"x=y"}}`)

	for name, source := range map[string]string{
		"wrapped oddly":       `{"clientAddr":{"type":"ipaddr4"},"serverAddr":{"type":"ipaddr4","value":null},"host":{"value":"x","type":"string"},"uri":{"type":"a","value":"b","more":1},"method":{"type":{},"value":[]}}`,
		"IPv6 and mapped":     `{"clientAddr":"2001:DB8::1","serverAddr":{"type":"ipaddr6","value":"::ffff:192.0.2.7"},"host":"[2001:db8::1]","method":"GET"}`,
		"addresses in arrays": `{"clientAddr":["10.0.0.1","10.0.0.2"],"serverAddr":{"type":"ipaddr4","value":["10.0.0.3"]},"method":"GET"}`,
		"no addresses":        `{"method":"GET","statusCode":200}`,
		"long texts":          `{"host":"` + long + `","uri":"` + long + `","userAgent":"` + long + `","qname":"` + long + `"}`,
		"deep nesting":        `{"clientAddr":` + deep + `,"ex":` + deep + `,"answers":[` + deep + `]}`,
		"reserved characters": `{"method":"G|E=T\\","host":"a=b|c\\d","uri":"/\r\n\t|=\\","userAgent":"\"x\" 'y' =|\\"}`,
		"odd status codes":    `{"statusCode":"200 OK","method":"get","reqBytes":-5,"rspBytes":1e30,"timestamp":"x"}`,
		"a fractional status": `{"statusCode":200.5,"clientPort":80.0,"serverPort":"443","reqPkts":1.5,"vlan":"x"}`,
		"odd answers":         `{"qname":"x","answers":[{},null,"1.2.3.4",7,{"data":{}},{"data":"a","ttl":"x","type":7},{"data":["a","b"]},{"name":"n"}]}`,
		"a time in the past":  `{"timestamp":-1,"first":-1,"last":1e300}`,
		"names twice":         `{"method":"GET","method":"POST","clientAddr":"10.0.0.1","clientAddr":"10.0.0.2"}`,
		"direction unknown":   `{"clientIsExternal":"maybe","serverIsExternal":null}`,
		"direction outbound":  `{"clientIsExternal":false,"serverIsExternal":true}`,
		"direction inbound":   `{"clientIsExternal":true,"serverIsExternal":false}`,
		"direction lateral":   `{"clientIsExternal":false,"serverIsExternal":false}`,
		"direction external":  `{"clientIsExternal":true,"serverIsExternal":true}`,
	} {
		for _, recordType := range []string{"~http", "~dns", "~flow", "~cifs"} {
			c.record(fmt.Sprintf("record/%s: %s", recordType, name), recordObject(recordType, source))
		}
	}
	c.record("record/a long type", recordObject("~"+long, "{}"))
	c.record("record/an odd type", recordObject("~ht|tp= \\", "{}"))
	c.add("own/names with odd characters", ownEvent(`{"a.b":1,"":2,"a=b|c":"x","ticket":{"reason":"a\r\nb"},"deep":`+deep+`}`), nil)
	c.add("own/reserved characters", ownEvent(`{"appliance":{"reason":"a|b=c\\d\r\ne\tf","failures":"many"}}`), nil)
}
