package appliance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"ndrbridge/test/appliance/rest"
)

// Detection is a detection with the fields of the interface. Times are
// milliseconds since the epoch.
type Detection struct {
	ID                 int64          `json:"id"`
	StartTime          int64          `json:"start_time"`
	UpdateTime         int64          `json:"update_time"`
	EndTime            int64          `json:"end_time"` // 0: ongoing, which is null
	Title              string         `json:"title"`
	Description        string         `json:"description"` // Markdown
	RiskScore          *int           `json:"risk_score"`
	Type               string         `json:"type"`
	RecommendedFactors []string       `json:"recommended_factors"`
	Recommended        bool           `json:"recommended"`
	Categories         []string       `json:"categories"`
	Properties         map[string]any `json:"properties"`
	Participants       []Participant  `json:"participants"`
	TicketID           TicketID       `json:"ticket_id"`
	TicketURL          Text           `json:"ticket_url,omitempty"` // set from the ticket id by the appliance
	Assignee           Text           `json:"assignee"`
	Status             Text           `json:"status"`
	Resolution         Text           `json:"resolution"`
	AIDisposition      Text           `json:"ai_disposition,omitempty"`
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

// shownDetection is a detection as the interface returns it. The fields up to risk_score
// replace those of the embedded Detection; what is nil is omitted.
type shownDetection struct {
	ID          int64           `json:"id"`
	StartTime   int64           `json:"start_time"`
	UpdateTime  int64           `json:"update_time"`
	EndTime     json.RawMessage `json:"end_time,omitempty"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	RiskScore   json.RawMessage `json:"risk_score,omitempty"`
	Detection
}

// encode returns the detection's JSON as the interface returns it. If omit is set, end_time,
// risk_score and ticket_url are absent rather than null if they have no value.
func (d *Detection) encode(omit bool) ([]byte, error) {
	shown := shownDetection{
		ID: d.ID, StartTime: d.StartTime, UpdateTime: d.UpdateTime, Title: d.Title, Description: d.Description, Detection: *d,
	}
	if !omit {
		shown.EndTime, shown.RiskScore = json.RawMessage("null"), json.RawMessage("null")
	}
	if d.EndTime != 0 {
		shown.EndTime = strconv.AppendInt(nil, d.EndTime, 10)
	}
	if d.RiskScore != nil {
		shown.RiskScore = strconv.AppendInt(nil, int64(*d.RiskScore), 10)
	}
	if shown.TicketURL.String() == "" && omit {
		shown.TicketURL = ""
	} else if shown.TicketURL == "" {
		shown.TicketURL = Null
	}
	// Empty arrays and objects are included.
	shown.RecommendedFactors = orEmpty(d.RecommendedFactors)
	shown.Categories = orEmpty(d.Categories)
	shown.Participants = orEmpty(d.Participants)
	shown.MitreTactics = orEmpty(d.MitreTactics)
	shown.MitreTechniques = orEmpty(d.MitreTechniques)
	if shown.Properties == nil {
		shown.Properties = map[string]any{}
	}
	b, err := rest.Encode(&shown)
	if err != nil {
		return nil, fmt.Errorf("encode detection %d: %w", d.ID, err)
	}
	if d.RawTitle == nil {
		return b, nil
	}
	title, err := rest.Encode(d.Title)
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

// Version is one state of a detection. It is immutable; callers must not modify it.
type Version struct {
	ID, ModTime                                int64
	StartTime, UpdateTime, EndTime, CreateTime int64 // EndTime 0: ongoing
	ApplianceID                                int64
	RiskScore                                  int // -1: none
	Recommended                                bool
	Type, Title                                string
	Status, Resolution, Assignee, TicketID     string // empty: null
	Categories                                 []string
	// By is the user who created it, through the interface or as an analyst; empty: the
	// appliance, Update or Edit.
	By string
	// JSON is the object as the interface returns it. It is not valid UTF-8 if the title
	// is not.
	JSON []byte

	rawTitle []byte
}

// newVersion returns the version for the state d; omit is that of encode.
func newVersion(d *Detection, omit bool) (*Version, error) {
	b, err := d.encode(omit)
	if err != nil {
		return nil, err
	}
	risk := -1
	if d.RiskScore != nil {
		risk = *d.RiskScore
	}
	return &Version{
		ID: d.ID, ModTime: d.ModTime,
		StartTime: d.StartTime, UpdateTime: d.UpdateTime, EndTime: d.EndTime, CreateTime: d.CreateTime,
		ApplianceID: d.ApplianceID,
		RiskScore:   risk,
		Recommended: d.Recommended,
		Type:        d.Type, Title: d.Title,
		Status: d.Status.String(), Resolution: d.Resolution.String(), Assignee: d.Assignee.String(), TicketID: d.TicketID.ID,
		Categories: d.Categories,
		JSON:       bytes.Clone(b), // without the newline added by the encoder
		rawTitle:   d.RawTitle,
	}, nil
}

// Detection returns the decoded state. The caller may modify it.
func (v *Version) Detection() Detection {
	d, err := decodeDetection(v.JSON)
	if err != nil {
		panic(err) // a bug: encode wrote it
	}
	// Old firmware does not return these fields.
	d.ModTime, d.CreateTime = v.ModTime, v.CreateTime
	d.RawTitle = v.rawTitle
	return d
}

// Text is a string of a detection that may be absent or null. The empty Text is absent if
// its field is optional, and null otherwise; Null is always null.
type Text string

// Null is a Text that is present and null.
const Null Text = "\x00null"

// String returns the text, or "" for null.
func (t Text) String() string {
	if t == Null {
		return ""
	}
	return string(t)
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.String() == "" {
		return []byte("null"), nil
	}
	return rest.Encode(string(t))
}

// UnmarshalJSON implements json.Unmarshaler. It accepts a string or null.
func (t *Text) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = Null
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// TicketID is the id of a ticket, or null if it is empty. Numeric encodes it as a number,
// as some integrations do.
type TicketID struct {
	ID      string
	Numeric bool
}

// MarshalJSON implements json.Marshaler.
func (t TicketID) MarshalJSON() ([]byte, error) {
	switch {
	case t.ID == "":
		return []byte("null"), nil
	case t.Numeric:
		n, err := strconv.ParseInt(t.ID, 10, 64)
		return strconv.AppendInt(nil, n, 10), err
	}
	return rest.Encode(t.ID)
}

// UnmarshalJSON implements json.Unmarshaler. It accepts a string, a number or null.
func (t *TicketID) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		*t = TicketID{}
		return nil
	case b[0] != '"':
		*t = TicketID{ID: string(b), Numeric: true}
		return nil
	}
	*t = TicketID{}
	return json.Unmarshal(b, &t.ID)
}
