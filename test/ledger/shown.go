package ledger

import (
	"fmt"
	"time"

	standin "ndrbridge/test/appliance"
)

// VersionsOf returns an appliance's versions of detections, from its nth version on.
func VersionsOf(a *standin.Appliance, n int) []Version {
	var versions []Version
	for _, v := range a.History()[n:] {
		versions = append(versions, Version{ID: v.ID, ModTime: v.ModTime, Object: string(v.JSON)})
	}
	return versions
}

// AuditEntriesOf returns the entries of an appliance's audit log.
func AuditEntriesOf(a *standin.Appliance) []Object {
	var objects []Object
	for _, e := range a.AuditHistory() {
		objects = append(objects, Object{ID: fmt.Sprintf("%d-%d", e.ID, e.Time), JSON: string(e.JSON)})
	}
	return objects
}

// RecordsOf returns the records of an appliance.
func RecordsOf(a *standin.Appliance) []Object {
	var objects []Object
	for _, r := range a.RecordHistory() {
		objects = append(objects, Object{
			ID: r.Index + "-" + r.ID, JSON: string(r.JSON), Late: time.Duration(r.StoredAt-r.Micros/1000) * time.Millisecond,
		})
	}
	return objects
}
