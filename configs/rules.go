package configs

// Rules configures what is done about tuning rules, which hide detections on the appliance: events
// report that a rule is created, updated or removed, or expires, and commands make, extend and end
// rules.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    rules: {enabled: true, write: true}
//	tickets: {enabled: true}
type Rules struct {
	// Enabled turns the events on.
	Enabled bool `yaml:"enabled"`
	// Interval is the wait between two comparisons of the rules. A rule that exists for a
	// shorter time may not be noticed.
	Interval Duration `yaml:"interval" default:"1m" above:"0"`
	// Write lets commands make, extend and end rules, whatever enabled is. It requires
	// [Tickets.Enabled], since the intakes are those of ticket commands.
	Write bool `yaml:"write"`
	// MaxExpiration limits how long from now a command may let a rule hide detections.
	MaxExpiration Duration `yaml:"max_expiration" default:"168h" above:"0"`
}

func (r *Rules) check(c checks, path string) {
	if r.Write && !c.config.Tickets.Enabled {
		c.wrong(path+".write", "is true, but tickets.enabled is false, so that no command is accepted; set tickets.enabled to true")
	}
}

// BlindSpots configures the events about times in which the appliance does not alert or store
// records. Each of the kinds is a stream of its own. With [Tickets.Enabled], so is the state of
// external ticket tracking: while it is switched off, neither tickets nor notes can be written.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    blind_spots: {exclusion_intervals: true, alerts: true, record_ingest: true}
type BlindSpots struct {
	// ExclusionIntervals reports exclusion intervals that begin and end. Those of every day or
	// week are taken to be in UTC.
	ExclusionIntervals bool `yaml:"exclusion_intervals"`
	// Alerts reports alerts that are disabled and enabled.
	Alerts bool `yaml:"alerts"`
	// RecordIngest reports that the record store halts the ingest of records, and resumes it.
	RecordIngest bool `yaml:"record_ingest"`
	// Interval is the wait between two comparisons. A blind spot that is open for a shorter
	// time may not be noticed.
	Interval Duration `yaml:"interval" default:"1m" above:"0"`
}
