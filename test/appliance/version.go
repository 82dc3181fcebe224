package appliance

import "bytes"

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

// newVersion returns the version for the state d.
func newVersion(d *Detection) (*Version, error) {
	b, err := d.encode()
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
