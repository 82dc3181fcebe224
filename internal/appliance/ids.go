package appliance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
)

// decodeIDs decodes the answer to a search with id_only: an array of ids, or of objects
// with an id, since the interface does not document which. An id that is not a 64-bit
// integer is 0, so that one bad object does not hide the others. It returns an error if
// all ids are bad, or if there are more than maxIDs, or than maxRows if maxIDs is 0.
func decodeIDs(body []byte, maxIDs int) ([]int64, error) {
	if maxIDs <= 0 {
		maxIDs = maxRows
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if kind := d.PeekKind(); kind != jsontext.KindBeginArray {
		return nil, errors.New("the answer is not an array of ids")
	}
	_, err := d.ReadToken()
	ids, valid := []int64{}, false
	for err == nil && d.PeekKind() != jsontext.KindEndArray {
		if len(ids) == maxIDs {
			return nil, fmt.Errorf("the answer has more than the %d ids requested", maxIDs)
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
		id, _ := jsonscan.Integer(element) // 0 after an error
		valid = valid || id != 0
		ids = append(ids, id)
	}
	if err == nil {
		_, err = d.ReadToken() // the closing bracket
	}
	if err != nil {
		return nil, fmt.Errorf("the answer is not an array of ids: %w", syntax(body, err))
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errors.New("the answer has data after its ids")
	}
	if !valid && len(ids) > 0 {
		return nil, errors.New("no element of the answer is an id")
	}
	return ids, nil
}
