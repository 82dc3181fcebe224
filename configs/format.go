package configs

import (
	"slices"
	"strings"

	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/transform/format"
)

// format checks the format of the documents, and the encoding of batches of them.
func (c checks) format(path string, s Sink) {
	name := format.Name(s.Format)
	if !name.IsKnown() {
		return // reported by the oneof tag
	}
	if s.Webhook != nil {
		c.batchEncoding(path+".webhook.batch_encoding", s, name)
	}
	if name == format.CloudEvents {
		return
	}
	at := path + ".format"
	if s.Mode == "binary" {
		c.wrong(at, "%q cannot be combined with mode binary, which is that of CloudEvents; leave mode out", s.Format)
	}
	w := s.Webhook
	switch {
	case w == nil:
	case w.Ticket != nil:
		c.wrong(at, "%q is not supported with ticket, which uses the system's own protocol; leave it out", s.Format)
	case w.Preset != "":
		c.presetFormat(at, w.Preset, name)
	case w.HasTemplate():
		c.wrong(at, "%q cannot be combined with webhook.template, which renders the body; keep one of them", s.Format)
	}
}

func (c checks) presetFormat(path, preset string, name format.Name) {
	spec, found := presets.Find(preset)
	switch {
	case !found || slices.Contains(spec.Formats, name): // an unknown preset is reported by the oneof tag
	case len(spec.Formats) == 0:
		c.wrong(path, "%q is not supported by preset %s, which sends messages of its own; leave it out", name, preset)
	default:
		supported := []string{string(format.CloudEvents)}
		for _, other := range spec.Formats {
			supported = append(supported, string(other))
		}
		c.wrong(path, "%q is not supported by preset %s, which supports %s", name, preset, strings.Join(supported, ", "))
	}
}

func (c checks) batchEncoding(path string, s Sink, name format.Name) {
	switch {
	case s.Webhook.BatchEncoding == "":
	case s.Mode != "batch":
		c.wrong(path, "requires mode batch; set mode to batch, or leave it out")
	case name.IsText():
		c.wrong(path, "is not supported with format %s, whose documents are lines of text; leave it out", name)
	}
}
