package render

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"ndrbridge/transform"
)

// mark is replaced in samples by the beginning of texts that are untrusted.
const mark = "§"

// hostile is JSON-escaped text with characters that are special in JSON.
const hostile = `\"\\`

type sample struct{ id, path, action, data string }

// samples are an event of each stream, with all fields of the appliance's interface.
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
		"changes": {"status": {"from": null, "to": "new"}},
		"lifecycle": {"first_seen": 1699999990000, "acknowledged": 1700000000000, "closed": 1700000000000, "reopened": 1700000000000},
		"visibility": {"state": "hidden", "rules": [{"id": 1, "description": "§Sample", "author": "§ana", "expiration": null}], "explanation": "hidden by rule 1"},
		"note": {"text": "§Sample", "author": "§ana", "time": 1700000000000},
		"context": {"devices": [{"id": 1, "name": "§host.example", "role": "§db_server", "ipaddr": "192.0.2.1", "critical": true, "on_watchlist": false,
			"tags": ["§Sample"], "groups": ["§Sample"]}]},
		"evidence": {"from": 1699999980000, "until": 1700000000000, "total": 1, "truncated": false,
			"records": [{"_id": "1", "_index": "records", "_type": "~dns", "_source": {"qname": "§host.example"}}]}}`},
	{"1-1700000000000", "audit", "audit.logged", `{
		"audit": {"id": 1, "time": 1700000000000, "occur_time": 1700000000000,
			"body": {"user": "§ana", "operation": "§login", "details": "§sample", "facility": "api"}}}`},
	{"records-1", "records/sample", "record.stored", `{
		"record": {"_id": "1", "_index": "records", "_type": "~dns", "_source": {"timestamp": 1700000000000.5, "qname": "§host.example"}}}`},
}

// try renders the samples. It succeeds if one stream's sample can be rendered, because
// a template for one stream may fail for others, but not with ErrTooMuch. If the output is
// JSON, no text of that sample may break it: a text that breaks the JSON could also forge it.
func (t *Template) try() error {
	var first error
	works := false
	for _, s := range samples {
		stream, err := t.renderSample(s, "")
		if err == nil && t.json {
			if _, err := t.renderSample(s, hostile); err != nil {
				return fmt.Errorf("for a sample of %s with quotes and backslashes in its texts: %w; write texts with the json function, without quotes around it, as in {{json .detection.title}}", stream, err)
			}
		}
		if errors.Is(err, ErrTooMuch) {
			return fmt.Errorf("for a sample of %s: %w", stream, err)
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

// renderSample renders a sample; prefix begins its untrusted texts.
func (t *Template) renderSample(s sample, prefix string) (stream string, err error) {
	const maxBytes = 1 << 20
	e, err := transform.New(transform.Attributes{
		ID: s.id, Source: "ndrbridge://sample/" + s.path, Type: transform.TypePrefix + s.action, Subject: "1", PartitionKey: "1",
		Time: time.UnixMilli(1700000000000), RecordedTime: time.UnixMilli(1700000000000), Appliance: "sample",
		SeverityNumber: 13, SeverityText: "medium",
	}, []byte(strings.ReplaceAll(s.data, mark, prefix)))
	if err == nil {
		_, err = t.render(e, maxBytes, sampleSteps)
	}
	return e.Stream(), err
}
