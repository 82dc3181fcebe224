package format

import (
	"bytes"
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// tableFiles declare the documents of each format.
//
//go:embed tables
var tableFiles embed.FS

// reader reads a file of tables: blocks of a line that says what it is, and the indented
// lines below it, whose columns are separated by two or more spaces. A line that begins with
// # is a comment. The panics of a reader are mistakes in these files, which are part of the
// program.
//
//	table NAME; STREAM; CONDITION  a table; CONDITION is PATH is A, B or PATH has A, B, or missing
//	rows NAME                      rows that tables include, by the line + NAME
//	words part NAME                a picker: words, and the JSON and the caption of each
//	words whole NAME               likewise, of words that tell all of the value
//	contains NAME, begins NAME     a picker by the first word that a text contains, or with which it begins
//	lengths                        fields, and their maximum lengths in bytes
//
// A word may be a number or an array as written, 1..399 for a range of integers, * for any
// other text or number, and […] for any other array. Without JSON and caption it stands for
// its text, and with - for nothing.
//
// A row is a field, its sources separated by |, and a conversion; see row. In the sources,
// ${version} stands for the bridge's version. The field "a, b" is a pair of a number and its
// caption, with a picker instead of a conversion. The row class UID NAME, sources, picker is
// all fields of a class of OCSF and its activity.
type reader struct {
	version     string
	conversions map[string]conversion
	pickers     map[string]picker
	groups      map[string][]row
	lengths     map[string]int
	tables      []table
}

// newReader returns a reader of the tables in some files.
func newReader(o Options, names ...string) *reader {
	r := &reader{
		version: o.Version, conversions: newConversions(), pickers: newPickers(),
		groups: make(map[string][]row), lengths: make(map[string]int),
	}
	for _, name := range names {
		r.read(name)
	}
	return r
}

var columns = regexp.MustCompile(`  +`)

func (r *reader) read(name string) {
	text, err := tableFiles.ReadFile("tables/" + name + ".txt")
	if err != nil {
		panic(err)
	}
	var head string
	var block [][]string
	for line := range strings.Lines(string(text) + "end\n") { // which adds the last block
		content := strings.TrimSpace(line)
		switch {
		case content == "" || content[0] == '#':
		case line[0] == ' ':
			block = append(block, columns.Split(content, -1))
		default:
			r.add(head, block)
			head, block = content, nil
		}
	}
}

// add adds what a block declares.
func (r *reader) add(head string, block [][]string) {
	kind, rest, _ := strings.Cut(head, " ")
	switch kind {
	case "table":
		parts := strings.Split(rest, "; ")
		t := table{name: parts[0], stream: parts[1], rows: r.rows(block)}
		if len(parts) > 2 {
			t.where = newCondition(parts[2])
		}
		r.tables = append(r.tables, t)
	case "rows":
		r.groups[rest] = r.rows(block)
	case "words":
		known, name, _ := strings.Cut(rest, " ")
		r.pickers[name] = words(map[string]fit{"part": part, "whole": whole}[known], wordsIn(block))
	case "contains":
		r.pickers[rest] = search(bytes.Contains, wordsIn(block))
	case "begins":
		r.pickers[rest] = search(bytes.HasPrefix, wordsIn(block))
	case "lengths":
		for _, c := range block {
			r.lengths[c[0]] = number(c[1])
		}
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func wordsIn(block [][]string) (all []wordIn) {
	for _, c := range block {
		c = append(c, "", "")
		all = append(all, wordIn{c[0], choice{c[1], c[2]}})
	}
	return all
}

func newCondition(text string) condition {
	if source, list, found := strings.Cut(text, " is "); found {
		return condition{source: source, is: strings.Split(list, ", ")}
	}
	source, list, _ := strings.Cut(text, " has ")
	return condition{source: source, has: strings.Split(list, ", ")}
}

func (r *reader) rows(block [][]string) (rows []row) {
	for _, c := range block {
		if name, isGroup := strings.CutPrefix(c[0], "+ "); isGroup {
			rows = append(rows, find(r.groups, name)...)
			continue
		}
		if c[0] == "class" {
			uid, name, _ := strings.Cut(c[1], " ")
			rows = append(rows, classRows(uid, name, r.sources(c[2]), find(r.pickers, c[3]))...)
			continue
		}
		sources := r.sources(c[1])
		if id, caption, isPair := strings.Cut(c[0], ", "); isPair {
			rows = append(rows, siblings(id, caption, find(r.pickers, c[2]), sources...)...)
			continue
		}
		rows = append(rows, row{c[0], sources, r.conversion(c[2])})
	}
	return rows
}

func (r *reader) sources(text string) []string {
	return strings.Split(strings.ReplaceAll(text, "${version}", r.version), " | ")
}

// conversion returns a conversion by its name, such as joined(text). A picker is that to its
// JSON.
func (r *reader) conversion(name string) conversion {
	if outer, inner, isCall := strings.Cut(strings.TrimSuffix(name, ")"), "("); isCall {
		return find(combinators, outer)(r.conversion(inner))
	}
	if c, found := r.conversions[name]; found {
		return c
	}
	return find(r.pickers, name).id()
}

func find[T any](of map[string]T, name string) T {
	found, ok := of[name]
	if !ok {
		panic(fmt.Sprintf("format: the tables name %q, which is not declared", name))
	}
	return found
}

// combinators make conversions of others.
var combinators = map[string]func(conversion) conversion{
	"each": each, "all": allOf, "first": firstOf, "joined": joined, "second": second, "firstIfSecond": firstIfSecond,
	"id": func(c conversion) conversion { return memberOf("id", c) },
}

// newConversions returns the conversions that tables can name besides the pickers.
func newConversions() map[string]conversion {
	return map[string]conversion{
		"text": text, "exactText": exactText, "integer": integer, "integer32": integer32, "count": count, "port": port,
		"float": float, "float32Number": float32Number, "rounded": rounded, "sum": sum, "boolean": boolean,
		"timestamp": timestamp, "millis": millis, "instant": instant, "devTime": devTime, "duration": duration,
		"secondsInMillis": secondsInMillis, "address": address, "address4": address4, "address6": address6,
		"emailAddress": emailAddress, "recipients": recipients, "macAddress": macAddress, "webURL": webURL,
		"raw": raw, "verbatim": verbatim, "flattened": flattened, "userName": userName, "baseName": baseName,

		"detectionCategory": detectionCategory, "ruleCategory": ruleCategory, "killChain": killChain, "attacks": attacks,
		"attackFramework": attackFramework, "attackTactics": attackTactics, "attackTechniques": attackTechniques,
		"portOfEndpoint": portOfEndpoint, "tickets": tickets, "deviceEnrichments": deviceEnrichments,
		"evidences": evidences, "observables": observables, "resources": resources,

		"iamType":           iamType,
		"configurationType": configurationType, "ownAction": ownAction,

		"networkType": networkType, "transportProtocol": transportProtocol,
		"applicationProtocol": applicationProtocol, "protocolOfType": protocolOfType, "protocolOfRecord": protocolOfRecord,
		"protocolName": protocolName, "keyword": keyword, "tcpFlags": tcpFlags,
		"httpMethod": httpMethod, "httpStatus": httpStatus,
		"mimeType": mimeType, "urlPath": urlPath, "uriPath": uriPath,
		"dnsAnswers": dnsAnswers, "answers": answers, "tlsVersion": tlsVersion, "tlsProtocol": tlsProtocol,
	}
}

// newPickers returns the pickers that tables can name besides those that they declare.
func newPickers() map[string]picker {
	return map[string]picker{
		"networkScope": networkScope, "addressVersion": addressVersion,
	}
}
