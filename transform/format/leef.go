package format

// newLEEF returns the encoder of LEEF:2.0 (IBM's Log Event Extended Format). It has no
// escapes: a character that a header or value cannot contain is replaced by a space, and
// the whole value is JSON under a key of our own.
//
// The keys are separated by tabs. The header names the tab as 0x09, which more readers
// know than the equivalent x09.
func newLEEF(o Options) *Encoder {
	return newLineEncoder(&lineFormat{
		start:     "LEEF:2.0|",
		header:    []string{"Vendor", "Product", "Version", "EventID"},
		end:       "0x09|",
		separator: '\t',
		// Some readers take a backslash for an escape.
		inHeader:     func(r rune) bool { return isPrintable(r) && r != '|' && r != '\\' },
		inValue:      isPrintable,
		appendHeader: appendAsIs,
		appendValue:  appendAsIs,
	}, newReader(o, "lines", "leef"))
}

func appendAsIs(dst, text []byte) []byte { return append(dst, text...) }
