package configs

// Notes configures what is exchanged with the notes of detections, of which each has at most one
// on the appliance. They require that external ticket tracking is on there.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    notes: {in: true}
type Notes struct {
	// In turns the events about notes on.
	In bool `yaml:"in"`
	// Interval is the wait between two rounds. A round takes one request per open detection.
	Interval Duration `yaml:"interval" default:"10m" above:"0"`
}
