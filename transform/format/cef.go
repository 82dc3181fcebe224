package format

// newCEF returns the encoder of CEF:0 (ArcSight Common Event Format, implementation
// standard version 27).
func newCEF(o Options) *Encoder {
	return newLineEncoder(&lineFormat{
		start:        "CEF:0|",
		header:       []string{"Device Vendor", "Device Product", "Device Version", "Device Event Class ID", "Name", "Severity"},
		separator:    ' ',
		inHeader:     isPrintable,
		inValue:      func(r rune) bool { return isPrintable(r) || r == '\n' || r == '\r' },
		appendHeader: appendCEFHeader,
		appendValue:  appendCEFValue,
	}, newReader(o, "lines", "cef"))
}

// appendCEFHeader appends a field of the header, in which pipes and backslashes are
// escaped.
func appendCEFHeader(dst, text []byte) []byte {
	for _, c := range text {
		if c == '|' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}

// appendCEFValue appends the value of a key, in which equals signs, backslashes and line
// breaks are escaped.
func appendCEFValue(dst, text []byte) []byte {
	start := 0
	for i, c := range text {
		if c != '=' && c != '\\' && c != '\n' && c != '\r' {
			continue
		}
		dst = append(append(dst, text[start:i]...), '\\')
		switch start = i; c {
		case '\n':
			dst, start = append(dst, 'n'), i+1
		case '\r':
			dst, start = append(dst, 'r'), i+1
		}
	}
	return append(dst, text[start:]...)
}
