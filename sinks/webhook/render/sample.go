package render

import (
	"fmt"
	"strings"
	"time"

	"ndrbridge/transform"
)

// mark stands in samples at the beginning of the texts that anybody may have written.
const mark = "§"

// hostile are texts with what has a meaning in JSON, as JSON writes it.
const hostile = `\"\\`

type sample struct{ id, path, action, data string }

// samples are an event of each stream, with the fields that an appliance gives it.
var samples = []sample{
	{"1-1700000000000", "detections", "detection.updated", `{
		"detection": {"id": 1, "mod_time": 1700000000000, "create_time": 1699999990000, "start_time": 1699999980000,
			"update_time": 1699999995000, "end_time": null, "title": "§Sample", "description": "§A *sample* <detection>.\nNothing happened.",
			"type": "sample", "risk_score": 61, "categories": ["sec", "sec.command"], "status": "new", "resolution": null, "assignee": "§ana",
			"ticket_id": "§SEC-1", "ticket_url": null, "recommended": true, "recommended_factors": ["top_offender"],
			"is_user_created": false, "url": "https://appliance.example/detections/1", "properties": {},
			"participants": [{"id": 1, "role": "offender", "object_type": "device", "object_id": 1, "object_value": "§192.0.2.1",
				"hostname": "§host.example", "username": "§ana", "external": false}],
			"mitre_tactics": [{"id": "TA0011", "name": "Command and Control", "url": "https://attack.example/TA0011"}],
			"mitre_techniques": [{"id": "T1095", "name": "Non-Application Layer Protocol", "url": "https://attack.example/T1095"}]},
		"changes": {"status": {"from": null, "to": "new"}}}`},
	{"1-1700000000000", "auditlog", "audit.logged", `{
		"audit": {"id": 1, "time": 1700000000000, "occur_time": 1700000000000,
			"body": {"user": "§ana", "operation": "§login", "details": "§sample", "facility": "api"}}}`},
	{"records-1", "records/sample", "record.stored", `{
		"record": {"_id": "1", "_index": "records", "_type": "~dns", "_source": {"timestamp": 1700000000000.5, "qname": "§host.example"}}}`},
}

// try renders the samples. A template that works for one stream may fail for the
// others: it is enough that it works for one. But where it makes JSON of one, no text
// of it may break that: what breaks it could as well say something else.
func (t *Template) try() error {
	var first error
	works := false
	for _, s := range samples {
		stream, err := t.renders(s, "")
		if err == nil && t.json {
			if _, err := t.renders(s, hostile); err != nil {
				return fmt.Errorf("for a sample of %s with quotes and backslashes in its texts: %w; write texts by json, without quotes around it, as in {{json .detection.title}}", stream, err)
			}
		}
		works = works || err == nil
		if first == nil && err != nil {
			first = fmt.Errorf("for a sample of %s: %w", stream, err)
		}
	}
	if works {
		return nil
	}
	return first
}

// renders renders a sample whose texts begin with what is given.
func (t *Template) renders(s sample, begin string) (stream string, err error) {
	const most = 1 << 20
	e, err := transform.New(transform.Attributes{
		ID: s.id, Source: "ndrbridge://sample/" + s.path, Type: "io.ndrbridge." + s.action, Subject: "1", PartitionKey: "1",
		Time: time.UnixMilli(1700000000000), RecordedTime: time.UnixMilli(1700000000000), Appliance: "sample",
		SeverityNumber: 13, SeverityText: "WARN",
	}, []byte(strings.ReplaceAll(s.data, mark, begin)))
	if err == nil {
		_, err = t.Render(e, most)
	}
	return e.Stream(), err
}
