package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
)

// decodeIDs takes body for the answer to a search with id_only. Its shape is
// not shown in the interface: an array of ids, or of objects that have one. An id
// that is no 64-bit integer is 0, so that one object does not hide the others; it
// is an error if that holds for all of them.
func decodeIDs(body []byte) ([]int64, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(body, &elements); err != nil {
		return nil, fmt.Errorf("the answer is no array of ids: %w", err)
	}
	if elements == nil {
		return nil, errors.New("the answer is null, where an array of ids is due")
	}
	ids, legible := make([]int64, len(elements)), len(elements) == 0
	for i, element := range elements {
		if element[0] == '{' {
			var object struct{ ID json.RawMessage }
			if err := json.Unmarshal(element, &object); err != nil {
				return nil, fmt.Errorf("element %d of the answer: %w", i, err)
			}
			element = object.ID
		}
		ids[i] = integer(string(element))
		legible = legible || ids[i] != 0
	}
	if !legible {
		return nil, errors.New("no element of the answer is an id")
	}
	return ids, nil
}
