package appliance

import (
	"ndrbridge/test/appliance/devices"
	"ndrbridge/test/appliance/resource"
)

// resources are the collections that several resources refer to.
type resources struct {
	population         *devices.Population
	devices            resource.Set // the population
	deviceGroups       *resource.Collection
	tags               *resource.Collection
	triggers           *resource.Collection
	networks           *resource.Collection
	applications       *resource.Collection
	alerts             *resource.Collection
	emailGroups        *resource.Collection
	exclusionIntervals *resource.Collection
	customDevices      *resource.Collection
	dashboards         *resource.Collection
	tuningRules        *resource.Collection
	dashboardSharing   resource.Sharing
	reports            *resource.Collection
	activityMaps       *resource.Collection
	mapSharing         resource.Sharing
	codes              *codes

	groupsOfDevices, tagsOfDevices, triggersOfDevices *resource.Relation
}

// newResources sets the resources. Relations between them can be made afterwards.
func (a *Appliance) newResources() {
	a.newAlertResources()
	a.newDeviceResources()
	a.resources.tuningRules = a.newTuningRules()
	a.newDashboards()
	a.newActivityMaps()
}
