package bridge

import (
	"io"
	"log/slog"

	"ndrbridge/configs"
	"ndrbridge/preflight"
)

// CheckSettings makes the appliances' clients and the sinks of a configuration as a
// bridge that starts does, and returns a finding for each that cannot be made, such as
// one whose certificates cannot be used. It contacts nothing, and changes nothing.
func CheckSettings(config *configs.Config, version string) []preflight.Finding {
	var found []preflight.Finding
	note := func(target string, err error) {
		if err != nil {
			found = append(found, preflight.Of(target, unusable(err))...)
		}
	}
	for _, a := range config.Appliances {
		client, err := newClient(a, version, nil, nil, nil)
		if err == nil {
			client.Close()
		}
		note("appliance "+a.Name, err)
	}
	for _, s := range config.Sinks {
		sink, err := openSink(s, nil, nil, version, io.Discard, slog.New(slog.DiscardHandler))
		if err == nil {
			err = sink.Close()
		}
		if err == nil {
			_, err = prepareFor(s)
		}
		note("sink "+s.Name, err)
	}
	if config.Tickets.Enabled {
		_, err := natsConnection(config.Tickets.NATS.Connection())
		note("tickets from nats", err)
		_, err = kafkaConnection(config.Tickets.Kafka.Connection())
		note("tickets from kafka", err)
	}
	return found
}
