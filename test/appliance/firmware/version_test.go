package firmware_test

import (
	"testing"

	"ndrbridge/test/appliance/firmware"
	"ndrbridge/test/assert"
)

func TestVersionsAreComparedNumberByNumber(t *testing.T) {
	for _, test := range []struct {
		version, other firmware.Version
		before         bool
	}{
		{"9.2.8.1", "9.3", true},
		{"9.3.0.1", "9.3", false},
		{"9.3", "26.3.0.1234", true},
		{"26.3.0.1234", "9.3", false},
		{"26.3.0.99", "26.3.0.100", true},
		{"26.3", "26.3.0.0", false},
		{"dev", "0.0.0.1", true},
	} {
		assert.Equal(t, test.version.Before(test.other), test.before, test.version, "is before", test.other)
	}
}
