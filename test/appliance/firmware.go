package appliance

import (
	"strconv"
	"strings"
)

// before compares a dotted firmware version number by number. A part that is no
// number counts as 0.
func before(firmware string, numbers ...int) bool {
	parts := strings.Split(firmware, ".")
	for i, number := range numbers {
		var have int
		if i < len(parts) {
			have, _ = strconv.Atoi(parts[i])
		}
		if have != number {
			return have < number
		}
	}
	return false
}
