package configs

// Context configures what is added to detections about their devices. Versions have what is
// known already and never wait; what becomes known later follows as detection.context.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    context: {devices: true, tags: true, groups: true}
//	sinks:
//	  - name: pager
//	    webhook: {preset: pagerduty, key_file: /run/secrets/pagerduty}
//	    match: context.devices.exists(d, d.critical || "crown jewels" in d.tags)
type Context struct {
	// Devices adds the name, the role, the address and the flags critical and on_watchlist of
	// the devices among the participants.
	Devices bool `yaml:"devices"`
	// Tags adds the names of the devices' tags.
	Tags bool `yaml:"tags"`
	// Groups adds the names of the devices' groups.
	Groups bool `yaml:"groups"`
	// Software adds the names and versions of the software that was observed on the devices,
	// with one request for each of them.
	Software bool `yaml:"software"`
	// Every is how often the members of tags and groups are read, and the age at which a device
	// is read again when a detection needs it.
	Every Duration `yaml:"every" default:"1h" min:"1m"`
	// Wait is how long the decision of a match that uses the context waits until it is known:
	// such a sink gets the detection.context event instead of the version. 0: the decision is
	// made with what is known.
	Wait Duration `yaml:"wait" default:"0s" min:"0"`
}

func (x *Context) check(c checks, path string) {
	for name, set := range map[string]bool{"tags": x.Tags, "groups": x.Groups, "software": x.Software} {
		if set && !x.Devices {
			c.wrong(path+"."+name, "requires devices: true, since it is added to the devices")
		}
	}
}
