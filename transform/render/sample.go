package render

import (
	"fmt"
	"time"

	"ndrbridge/transform"
)

// samples are an event of each stream, with the fields that an appliance gives it.
var samples = []struct{ id, path, action, data string }{
	{"1-1700000000000", "detections", "detection.updated", `{
		"detection": {"id": 1, "mod_time": 1700000000000, "create_time": 1699999990000, "start_time": 1699999980000,
			"update_time": 1699999995000, "end_time": null, "title": "Sample", "description": "A *sample* <detection>.\nNothing happened.",
			"type": "sample", "risk_score": 61, "categories": ["sec", "sec.command"], "status": "new", "resolution": null, "assignee": null,
			"ticket_id": "SEC-1", "ticket_url": null, "recommended": true, "recommended_factors": ["top_offender"],
			"is_user_created": false, "url": "https://appliance.example/detections/1", "properties": {},
			"participants": [{"id": 1, "role": "offender", "object_type": "device", "object_id": 1, "object_value": "192.0.2.1",
				"hostname": "host.example", "username": null, "external": false}],
			"mitre_tactics": [{"id": "TA0011", "name": "Command and Control", "url": "https://attack.example/TA0011"}],
			"mitre_techniques": [{"id": "T1095", "name": "Non-Application Layer Protocol", "url": "https://attack.example/T1095"}]},
		"changes": {"status": {"from": null, "to": "new"}}}`},
	{"1-1700000000000", "auditlog", "audit.logged", `{
		"audit": {"id": 1, "time": 1700000000000, "occur_time": 1700000000000,
			"body": {"user": "ana", "operation": "login", "details": "sample", "facility": "api"}}}`},
	{"records-1", "records/sample", "record.stored", `{
		"record": {"_id": "1", "_index": "records", "_type": "~dns", "_source": {"timestamp": 1700000000000.5, "qname": "host.example"}}}`},
}

// try renders the samples. A template that works for one stream may fail for the
// others: it is enough that it works for one.
func (t *Template) try() error {
	const most = 1 << 20
	var first error
	for _, s := range samples {
		e, err := transform.New(transform.Attributes{
			ID: s.id, Source: "ndrbridge://sample/" + s.path, Type: "io.ndrbridge." + s.action, Subject: "1", PartitionKey: "1",
			Time: time.UnixMilli(1700000000000), RecordedTime: time.UnixMilli(1700000000000), Appliance: "sample",
			SeverityNumber: 13, SeverityText: "WARN",
		}, []byte(s.data))
		if err != nil {
			return err
		}
		if _, err = t.Render(e, most); err == nil {
			return nil
		}
		if first == nil {
			first = fmt.Errorf("for a sample of %s: %w", e.Stream(), err)
		}
	}
	return first
}
