package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// decodeIDs takes body for the answer to a search with id_only. Its shape is
// not shown in the interface: an array of ids, or of objects that have one.
func decodeIDs(body []byte) ([]int64, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(body, &elements); err != nil {
		return nil, fmt.Errorf("the answer is no array of ids: %w", err)
	}
	if elements == nil {
		return nil, errors.New("the answer is null, where an array of ids is due")
	}
	ids := make([]int64, len(elements))
	for i, element := range elements {
		if element[0] == '{' {
			var object struct{ ID json.RawMessage }
			if err := json.Unmarshal(element, &object); err != nil {
				return nil, fmt.Errorf("element %d of the answer: %w", i, err)
			}
			element = object.ID
		}
		id, err := strconv.ParseInt(string(element), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("element %d of the answer is no id", i)
		}
		ids[i] = id
	}
	return ids, nil
}
