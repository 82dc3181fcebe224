package ledger

import (
	"fmt"

	standin "ndrbridge/test/appliance"
)

// VersionsOf is what an appliance showed of detections, from its nth version on.
func VersionsOf(a *standin.Appliance, n int) []Version {
	var versions []Version
	for _, v := range a.History()[n:] {
		versions = append(versions, Version{ID: v.ID, ModTime: v.ModTime, Object: string(v.JSON)})
	}
	return versions
}

// AuditEntriesOf is what an appliance's audit log showed.
func AuditEntriesOf(a *standin.Appliance) []Object {
	var objects []Object
	for _, e := range a.AuditHistory() {
		objects = append(objects, Object{ID: fmt.Sprintf("%d-%d", e.ID, e.Time), JSON: string(e.JSON)})
	}
	return objects
}

// RecordsOf is what an appliance's record store showed.
func RecordsOf(a *standin.Appliance) []Object {
	var objects []Object
	for _, r := range a.RecordHistory() {
		objects = append(objects, Object{ID: r.Index + "-" + r.ID, JSON: string(r.JSON)})
	}
	return objects
}
