package crash

import (
	"strings"

	"ndrbridge/test/locked"
)

// output collects the output of a process.
type output struct{ locked.Buffer }

// end returns the end of the output.
func (o *output) end() string {
	const most = 10_000
	text := o.String()
	return text[max(0, len(text)-most):]
}

func (o *output) has(text string) bool {
	return strings.Contains(o.String(), text)
}
