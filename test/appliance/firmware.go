package appliance

import (
	"strconv"
	"strings"
)

// before reports whether the firmware is older than a dotted version, comparing number by
// number. A part that is not a number counts as 0.
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
