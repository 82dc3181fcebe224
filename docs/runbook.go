// Package docs has the documents that the program contains.
package docs

import _ "embed"

// Runbook is the run book, in Markdown. Each alert has a section of its name.
//
//go:embed runbook.md
var Runbook []byte
