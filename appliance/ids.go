package appliance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// decodeIDs takes body for the answer to a search with id_only: an array of ids, or of
// objects that have one, since the interface does not show which. An id that is no 64-bit
// integer is 0, so that one object does not hide the others; it is an error if that holds
// for all of them, or if there are more than most, or than maxRows if most is 0.
func decodeIDs(body []byte, most int) ([]int64, error) {
	if most <= 0 {
		most = maxRows
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if kind := d.PeekKind(); kind != jsontext.KindBeginArray {
		return nil, errors.New("the answer is no array of ids")
	}
	_, err := d.ReadToken()
	ids, legible := []int64{}, false
	for err == nil && d.PeekKind() != jsontext.KindEndArray {
		if len(ids) == most {
			return nil, fmt.Errorf("the answer has more than the %d ids that were asked for", most)
		}
		var element jsontext.Value
		if element, err = d.ReadValue(); err != nil {
			break
		}
		if element[0] == '{' {
			var object struct{ ID json.RawMessage }
			if err := json.Unmarshal(element, &object); err != nil {
				return nil, fmt.Errorf("element %d of the answer: %w", len(ids), err)
			}
			element = jsontext.Value(object.ID)
		}
		id := integer(string(element))
		legible = legible || id != 0
		ids = append(ids, id)
	}
	if err == nil {
		_, err = d.ReadToken() // the bracket
	}
	if err != nil {
		return nil, fmt.Errorf("the answer is no array of ids: %w", syntax(body, err))
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errors.New("something stands behind the ids of the answer")
	}
	if !legible && len(ids) > 0 {
		return nil, errors.New("no element of the answer is an id")
	}
	return ids, nil
}
