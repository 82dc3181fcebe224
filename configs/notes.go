package configs

// Notes configures what is exchanged with the notes of detections, of which each has at most one
// on the appliance. They require that external ticket tracking is on there.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    notes: {in: true, out: true}
//	tickets: {enabled: true}
type Notes struct {
	// In turns the events about notes on.
	In bool `yaml:"in"`
	// Interval is the wait between two rounds. A round takes one request per open detection.
	Interval Duration `yaml:"interval" default:"10m" above:"0"`
	// Out lets commands add to notes, whatever in is. It requires [Tickets.Enabled], since the
	// intakes are those of ticket commands.
	Out bool `yaml:"out"`
}

func (n *Notes) check(c checks, path string) {
	if n.Out && !c.config.Tickets.Enabled {
		c.wrong(path+".out", "is true, but tickets.enabled is false, so that no command is accepted; set tickets.enabled to true")
	}
}
