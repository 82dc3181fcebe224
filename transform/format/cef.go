package format

// newCEF returns the encoder of CEF:0 (ArcSight Common Event Format, implementation
// standard version 27).
func newCEF(o Options) *Encoder {
	return newLineEncoder(&lineFormat{
		start:        "CEF:0|",
		header:       []string{"Device Vendor", "Device Product", "Device Version", "Device Event Class ID", "Name", "Severity"},
		separator:    ' ',
		lengths:      cefLengths,
		inHeader:     printable,
		inValue:      newCharset(func(r rune) bool { return isPrintable(r) || r == '\n' || r == '\r' }),
		appendHeader: appendCEFHeader,
		appendValue:  appendCEFValue,
	}, cefTables(o))
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

// cefLengths are the maximum lengths of the texts in CEF's header and dictionary of keys.
// The standard does not say in what unit; bytes satisfy all.
var cefLengths = map[string]int{
	"Device Vendor":            63,
	"Device Product":           63,
	"Device Version":           31,
	"Device Event Class ID":    1023,
	"Name":                     512,
	"act":                      63,
	"app":                      31,
	"cat":                      1023,
	"cs1":                      4000,
	"cs2":                      4000,
	"cs3":                      4000,
	"cs4":                      4000,
	"cs5":                      4000,
	"cs6":                      4000,
	"deviceExternalId":         255,
	"deviceFacility":           1023,
	"dhost":                    1023,
	"duser":                    1023,
	"externalId":               40,
	"filePath":                 1023,
	"msg":                      1023,
	"outcome":                  63,
	"proto":                    31,
	"reason":                   1023,
	"request":                  1023,
	"requestClientApplication": 1023,
	"requestContext":           2048,
	"requestMethod":            1023,
	"shost":                    1023,
	"suser":                    1023,
}
