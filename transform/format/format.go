// Package format encodes events in the formats of log management systems: OCSF 1.8.0,
// ECS 9.4.0, CEF:0 and LEEF:2.0. What goes where is declared in tables, one for each
// format and stream.
package format

import "slices"

// Name is a value of the key format in a sink's configuration.
type Name string

// The formats.
const (
	CloudEvents Name = "cloudevents" // as the event is stored
	OCSF        Name = "ocsf"        // Open Cybersecurity Schema Framework 1.8.0, JSON
	ECS         Name = "ecs"         // Elastic Common Schema 9.4.0, JSON
	CEF         Name = "cef"         // Common Event Format, CEF:0, a line of text
	LEEF        Name = "leef"        // Log Event Extended Format, LEEF:2.0, a line of text
)

// Names returns all formats, in the order in which they are documented.
func Names() []Name { return []Name{CloudEvents, OCSF, ECS, CEF, LEEF} }

// IsKnown reports whether n is one of the formats.
func (n Name) IsKnown() bool { return slices.Contains(Names(), n) }

// IsText reports whether a document is a line of text instead of a JSON object.
func (n Name) IsText() bool { return n == CEF || n == LEEF }
