package appliance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestBytesThatAreNotUTF8AreReplaced(t *testing.T) {
	body := "[{\"id\":1,\"title\":\"\xe9t\xe9\"},\n {\"id\":2,\"title\":\"été \\ud800 \\u00e9\"},{\"n\xffme\":\"\xf0\x9f\x98\"}]"
	want := []Object{
		{Raw: []byte(`{"id":1,"title":"` + "�t�" + `"}`), Repaired: true},
		{Raw: []byte(`{"id":2,"title":"été \ud800 \u00e9"}`)},
		{Raw: []byte(`{"n` + "�" + `me":"` + "�" + `"}`), Repaired: true},
	}
	var page Page
	require.NoError(t, page.decodeArray([]byte(body)))
	for i, o := range page.Objects {
		assert.True(t, string(o.Raw) == string(want[i].Raw) && o.Repaired == want[i].Repaired, "object", i, string(o.Raw), "repaired", o.Repaired)
	}
	assert.Equal(t, len(page.Objects), len(want), "objects")
	require.NoError(t, page.decodeObject([]byte("{\"t\":\"\xc3\"} ")))
	o := page.Objects[0]
	assert.True(t, string(o.Raw) == "{\"t\":\"�\"}" && o.Repaired, string(o.Raw))
}

func TestIDs(t *testing.T) {
	for body, want := range map[string]string{
		`[]`:                             "[]",
		` [1, 25769804127 ,{"id": -3}] `: "[1 25769804127 -3]",
		`[9223372036854775807]`:          "[9223372036854775807]",
		`[{"id": 5, "title": "x"}]`:      "[5]",
		`[null, 7, {}]`:                  "[0 7 0]",
		`[9223372036854775808]`:          "",
		`[1.0]`:                          "",
		`[1e3]`:                          "",
		`["1", {"id": "25769804127"}]`:   "[1 25769804127]",
		`["one"]`:                        "",
		`[null]`:                         "",
		`[{}]`:                           "",
		`[{"id": null}]`:                 "",
		`[[1]]`:                          "",
		`null`:                           "",
		`{"id": 1}`:                      "",
		`[1`:                             "",
		`[1]2`:                           "",
		``:                               "",
	} {
		ids, err := decodeIDs([]byte(body), 0)
		got := fmt.Sprint(ids)
		assert.True(t, (err != nil || got == want) && (err == nil || want == ""), body, got, err, want)
	}
}

func FuzzPage(f *testing.F) {
	for _, seed := range []string{
		`[]`, ` [ {} , {"a":1.10,"b":[true,null,"x\u0000\ud800"]} ] `, `[{"a":1,"a":2}]`, "[{\"a\":\"\xff\"}]",
		`[{"a":`, `[{}`, `[{},]`, `[{}]x`, `[[]]`, `{}`, `null`, `<html>`, ``, "\ufeff[]", `[{"n":-0,"m":1E+400}]`,
	} {
		f.Add([]byte(seed))
	}
	var page Page
	f.Fuzz(func(t *testing.T, body []byte) {
		body = bytes.Clone(body)
		var want []json.RawMessage
		wantErr := json.Unmarshal(body, &want)
		err := page.decodeArray(body)
		if err != nil {
			allObjects := wantErr == nil && want != nil
			for _, o := range want {
				allObjects = allObjects && o[0] == '{'
			}
			require.True(t, !allObjects, "refused an array of objects", err)
			return
		}
		require.True(t, wantErr == nil && want != nil && len(want) == len(page.Objects), "accepted", len(page.Objects), "objects, encoding/json", len(want), wantErr)
		rest := body
		for i, o := range page.Objects {
			raw := string(want[i])
			repaired := strings.ToValidUTF8(raw, "�")
			require.True(t, string(o.Raw) == repaired && o.Repaired == (repaired != raw), "object", i, string(o.Raw), repaired)
			require.True(t, json.Valid(o.Raw) && utf8.Valid(o.Raw) && o.Raw[0] == '{', "object", i, string(o.Raw))
			// Only the array's brackets, commas and white space lie between the objects.
			between, behind, found := bytes.Cut(rest, want[i])
			mark := map[bool]string{true: "[", false: ","}[i == 0]
			require.True(t, found && string(bytes.TrimSpace(between)) == mark, string(between), "stands before object", i)
			rest = behind
		}
		tail := string(bytes.Join(bytes.Fields(rest), nil))
		require.True(t, tail == "]" || len(page.Objects) == 0 && tail == "[]", string(rest), "stands behind the last object")
		if len(page.Objects) == 1 {
			err := page.decodeObject(bytes.Clone(want[0]))
			require.True(t, err == nil && len(page.Objects) == 1, "refused as an object", err)
		}
	})
}

// detection is an object of about 2 KB, with what detections are made of.
func detection(id int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":%d,"appliance_id":6,"type":"rare_ssh_port","title":"Rare SSH Port","start_time":1700000000000,`+
		`"update_time":1700000360000,"mod_time":17000003%05d,"risk_score":61,"is_user_created":false,"recommended":true,`+
		`"categories":["sec","sec.action","sec.caution"],"assignee":null,"ticket_id":null,"status":"new","resolution":null,`+
		`"description":"The [client](#/devices/17) opened a connection to a port that is rare.\n\n* first\n* second %s",`+
		`"properties":{"port":2222,"addresses":{"type":"ipaddr","value":["192.0.2.1","2001:db8::1"]}},"participants":[`,
		25769800000+id, id%100000, strings.Repeat("and what was seen before it, ", 30))
	for i := range 4 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"role":"offender","object_type":"device","object_id":%d,"object_value":"192.0.2.%d","hostname":"host-%d.example","username":null,"endpoint":"client","external":false}`, 4*id+i, 100+i, i, i)
	}
	b.WriteString("]}")
	return b.String()
}

func BenchmarkPage(b *testing.B) {
	const objects = 1000
	texts := make([]string, objects)
	for i := range texts {
		texts[i] = detection(i)
	}
	body := []byte("[" + strings.Join(texts, ",") + "]")
	b.Logf("%d bytes an object", len(body)/objects)
	var page Page
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, page.decodeArray(body))
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/objects, "µs/object")
}
