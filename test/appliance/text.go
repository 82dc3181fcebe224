package appliance

import (
	"bytes"
	"encoding/json"
	"strconv"
)

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
	return encode(string(t))
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
	return encode(t.ID)
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

// encode is like json.Marshal but does not escape &, < and >.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
