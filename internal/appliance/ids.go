package appliance

import (
	"errors"
	"fmt"

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
	ids, valid := []int64{}, false
	end, err := jsonscan.Array(body, func(element []byte) error {
		if len(ids) == maxIDs {
			return fmt.Errorf("the answer has more than the %d ids requested", maxIDs)
		}
		if element[0] == '{' {
			element = member(element, "id")
		}
		id, _ := jsonscan.Integer(element) // 0 after an error
		valid = valid || id != 0
		ids = append(ids, id)
		return nil
	})
	if err := complete(body, end, err); err != nil {
		return nil, fmt.Errorf("the answer is not an array of ids: %w", err)
	}
	if !valid && len(ids) > 0 {
		return nil, errors.New("no element of the answer is an id")
	}
	return ids, nil
}
