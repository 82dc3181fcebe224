package appliance

import "bytes"

// Version is one state of a detection, as it was visible from some moment on.
// It is never modified, and neither may its holders modify it.
type Version struct {
	ID, ModTime                                int64
	StartTime, UpdateTime, EndTime, CreateTime int64 // EndTime 0: it goes on
	ApplianceID                                int64
	RiskScore                                  int // -1: none
	Recommended                                bool
	Type, Title                                string
	Status, Resolution, Assignee, TicketID     string // empty: null
	Categories                                 []string
	// By is the user who made it, through the interface or as an analyst; empty:
	// the appliance did, or Update and Edit, which name nobody.
	By string
	// JSON is the object as the interface shows it, in bytes that are not UTF-8
	// where the title has such.
	JSON []byte

	rawTitle []byte
}

// newVersion returns what d is.
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
		JSON:       bytes.Clone(b), // without the space that encoding left behind it
		rawTitle:   d.RawTitle,
	}, nil
}

// Detection returns the detection that v is a version of, to read or to change a
// copy.
func (v *Version) Detection() Detection {
	d, err := decodeDetection(v.JSON)
	if err != nil {
		panic(err) // what encode wrote cannot be read: a mistake in this package
	}
	// Old firmware does not show them.
	d.ModTime, d.CreateTime = v.ModTime, v.CreateTime
	d.RawTitle = v.rawTitle
	return d
}
