package appliance

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Detection is a detection with the fields of the interface. Times are
// milliseconds since the epoch.
type Detection struct {
	ID                 int64          `json:"id"`
	StartTime          int64          `json:"start_time"`
	UpdateTime         int64          `json:"update_time"`
	EndTime            int64          `json:"end_time,omitzero"` // 0: ongoing
	Title              string         `json:"title"`
	Description        string         `json:"description"` // Markdown
	RiskScore          *int           `json:"risk_score,omitempty"`
	Type               string         `json:"type"`
	RecommendedFactors []string       `json:"recommended_factors"`
	Recommended        bool           `json:"recommended"`
	Categories         []string       `json:"categories"`
	Properties         map[string]any `json:"properties"`
	Participants       []Participant  `json:"participants"`
	TicketID           TicketID       `json:"ticket_id"`
	TicketURL          Text           `json:"ticket_url,omitempty"`
	Assignee           Text           `json:"assignee"`
	Status             Text           `json:"status"`
	Resolution         Text           `json:"resolution"`
	MitreTactics       []Mitre        `json:"mitre_tactics"`
	MitreTechniques    []Mitre        `json:"mitre_techniques"`
	ApplianceID        int64          `json:"appliance_id"`
	IsUserCreated      bool           `json:"is_user_created"`
	ModTime            int64          `json:"mod_time,omitzero"`
	CreateTime         int64          `json:"create_time,omitzero"`
	URL                string         `json:"url,omitempty"`

	// RawTitle, if not nil, are the bytes between the quotes of the title, neither escaped
	// nor checked.
	RawTitle []byte `json:"-"`
}

// Participant is an offender or a victim of a detection. ID is unique, ObjectID is not.
type Participant struct {
	Role           string   `json:"role"` // offender, victim
	ScannerService Text     `json:"scanner_service,omitempty"`
	Endpoint       Text     `json:"endpoint,omitempty"` // client, server, sender, receiver
	External       bool     `json:"external"`
	ObjectID       int64    `json:"object_id,omitzero"`
	ObjectType     string   `json:"object_type"` // device, ipaddr
	ObjectValue    string   `json:"object_value,omitempty"`
	Hostname       Text     `json:"hostname,omitempty"`
	Username       Text     `json:"username,omitempty"`
	ID             int64    `json:"id"`
	Usernames      []string `json:"usernames,omitempty"` // once patched
	Origins        []string `json:"origins,omitempty"`   // once patched
}

// Mitre is a tactic or technique of MITRE ATT&CK.
type Mitre struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	URL       string   `json:"url"`
	LegacyIDs []string `json:"legacy_ids,omitempty"` // only of techniques
}

// encode returns the detection's JSON as the interface returns it.
func (d *Detection) encode() ([]byte, error) {
	shown := *d
	// Empty arrays and objects are included.
	shown.RecommendedFactors = orEmpty(d.RecommendedFactors)
	shown.Categories = orEmpty(d.Categories)
	shown.Participants = orEmpty(d.Participants)
	shown.MitreTactics = orEmpty(d.MitreTactics)
	shown.MitreTechniques = orEmpty(d.MitreTechniques)
	if shown.Properties == nil {
		shown.Properties = map[string]any{}
	}
	b, err := encode(&shown)
	if err != nil {
		return nil, fmt.Errorf("encode detection %d: %w", d.ID, err)
	}
	if d.RawTitle == nil {
		return b, nil
	}
	title, err := encode(d.Title)
	if err != nil {
		return nil, fmt.Errorf("encode the title of detection %d: %w", d.ID, err)
	}
	written := append([]byte(`"title":`), title...)
	raw := append(append([]byte(`"title":"`), d.RawTitle...), '"')
	return bytes.Replace(b, written, raw, 1), nil
}

// decodeDetection is the inverse of encode, except for RawTitle.
func decodeDetection(b []byte) (Detection, error) {
	var d Detection
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber() // properties keep the numbers as they were written
	if err := decoder.Decode(&d); err != nil {
		return d, fmt.Errorf("decode a detection: %w", err)
	}
	return d, nil
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
