package format

// Start returns the beginning of every document of the format, by which a line of a file
// is recognized as a document. It returns "" for an unknown format.
func (n Name) Start() string {
	switch n {
	case CloudEvents:
		return `{"specversion":`
	case OCSF:
		return `{"activity_id":`
	case ECS:
		return `{"@timestamp":`
	case CEF:
		return "CEF:0|"
	case LEEF:
		return "LEEF:2.0|"
	}
	return ""
}
