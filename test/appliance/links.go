package appliance

import (
	"bytes"
	"fmt"
	"regexp"
)

var (
	description = regexp.MustCompile(`"description":"(?:[^"\\]|\\.)*"`)
	linkTime    = regexp.MustCompile(`(?:from|until)=[0-9]+`)
)

// withLinkTimes returns a copy of a detection's JSON in which the time range of the links in
// the description ends at the given second. Their lengths do not change.
func withLinkTimes(object []byte, until int64) []byte {
	const window = 1800
	return description.ReplaceAllFunc(object, func(text []byte) []byte {
		return linkTime.ReplaceAllFunc(text, func(written []byte) []byte {
			name, _, _ := bytes.Cut(written, []byte("="))
			at := until
			if string(name) == "from" {
				at -= window
			}
			if changed := fmt.Appendf(nil, "%s=%d", name, at); len(changed) == len(written) {
				return changed
			}
			return written
		})
	})
}
