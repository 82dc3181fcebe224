package format

import (
	"bytes"
	"strings"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// The tactics and techniques that a category implies.
var tacticsOfCategory, techniquesOfCategory = entriesOfCategories()

func entriesOfCategories() (tactics, techniques map[string][]attack) {
	tactics, techniques = make(map[string][]attack), make(map[string][]attack)
	for category, meaning := range categoryMeanings {
		for _, id := range meaning.tactics {
			tactics[category] = append(tactics[category], newAttack("tactics", id))
		}
		for _, id := range meaning.techniques {
			techniques[category] = append(techniques[category], newAttack("techniques", id))
		}
	}
	return tactics, techniques
}

// newAttack returns an entry of ATT&CK by its kind, tactics or techniques, and its id.
func newAttack(kind, id string) attack {
	return attack{
		id: appendText(nil, id), name: appendText(nil, attackNames[id]), reference: appendText(nil, "https://attack.mitre.org/"+kind+"/"+id),
	}
}

// The conversions of an array of tactics, techniques or categories. An element is an
// object with id, name, url and legacy_ids, or a text that is an id, a name or a category.
var (
	// attackFramework is MITRE ATT&CK if there is a tactic or technique.
	attackFramework = conversion(func(dst, value []byte) ([]byte, fit) {
		for element := range jsonscan.Elements(value) {
			e, _ := readAttack(element)
			if e.id != nil || e.name != nil || tacticsOfCategory[categoryOf(element)] != nil {
				return append(dst, `"MITRE ATT&CK"`...), part
			}
		}
		return dst, none
	})
	attackTactics = conversion(func(dst, value []byte) ([]byte, fit) {
		var tactics attackLists
		f := tactics.read(value, tacticsOfCategory, nil)
		if tactics.isEmpty() {
			return dst, none
		}
		return append(tactics.append(append(dst, '{')), '}'), f
	})
	// attackTechniques writes the techniques, and subtechnique with those of them that
	// have one, such as T1071.004 of T1071.
	attackTechniques = conversion(func(dst, value []byte) ([]byte, fit) {
		var techniques, subtechniques attackLists
		f := techniques.read(value, techniquesOfCategory, &subtechniques)
		if techniques.isEmpty() {
			return dst, none
		}
		dst = techniques.append(append(dst, '{'))
		if !subtechniques.isEmpty() {
			dst = append(subtechniques.append(append(transform.AppendComma(dst), `"subtechnique":{`...)), '}')
		}
		return append(dst, '}'), f
	})
)

// attackLists are the contents of the arrays of one object.
type attackLists struct{ ids, names, references []byte }

func (l *attackLists) isEmpty() bool {
	return len(l.ids) == 0 && len(l.names) == 0 && len(l.references) == 0
}

// append appends the members of the object.
func (l *attackLists) append(dst []byte) []byte {
	for _, list := range []struct {
		begin  string
		values []byte
	}{{`"id":[`, l.ids}, {`"name":[`, l.names}, {`"reference":[`, l.references}} {
		if len(list.values) > 0 {
			dst = append(append(append(transform.AppendComma(dst), list.begin...), list.values...), ']')
		}
	}
	return dst
}

// read reads an array. Entries whose id has a dot are added to subs, if it is not nil, and
// the part of the id in front of the dot to l. It returns whole if the lists, with
// legacy_ids in a field of its own, have all of the array.
func (l *attackLists) read(value []byte, ofCategory map[string][]attack, subs *attackLists) fit {
	f := whole
	for element := range jsonscan.Elements(value) {
		if entries := ofCategory[categoryOf(element)]; entries != nil {
			f = part
			for _, e := range entries {
				l.add(e)
			}
			continue
		}
		e, complete := readAttack(element)
		if !complete {
			f = part
		}
		if dot := bytes.IndexByte(e.id, '.'); dot > 0 && subs != nil && e.id[0] == '"' {
			subs.add(e)
			e = attack{id: append(bytes.Clone(e.id[:dot]), '"')}
		}
		l.add(e)
	}
	return f
}

func (l *attackLists) add(e attack) {
	l.ids = addScalar(l.ids, e.id)
	l.names = addScalar(l.names, e.name)
	l.references = addScalar(l.references, e.reference)
}

// addScalar appends a value, if there is one, as text to a list that does not contain it.
func addScalar(list, value []byte) []byte {
	if value == nil {
		return list
	}
	before := len(list)
	if before > 0 {
		list = append(list, ',')
	}
	start := len(list)
	if value[0] == '"' {
		list = appendString(list, value)
	} else {
		list = append(append(append(list, '"'), value...), '"')
	}
	if contains(append([]byte{'['}, list[:before]...), list[start:]) {
		return list[:before]
	}
	return list
}

// categoryOf returns an element without its quotes.
func categoryOf(element []byte) string {
	if element[0] != '"' || len(element) > 64 {
		return ""
	}
	return string(element[1 : len(element)-1])
}

// readAttack reads an element of the arrays. Complete reports whether it has nothing
// else.
func readAttack(element []byte) (e attack, complete bool) {
	if element[0] == '"' {
		switch name := categoryOf(element); {
		case len(element) == len(`""`):
			return e, true
		case isAttackID(name):
			return attack{id: element}, true
		case name == "" || !strings.ContainsRune(name, ' ') && name == strings.ToLower(name):
			return e, false // a category that implies none
		}
		return attack{name: element}, true
	}
	e, complete = parseAttack(element)
	isObject := element[0] == '{' || string(element) == "null"
	return e, complete && isObject && (e.legacy == nil || isTexts(e.legacy))
}

// isTexts reports whether a value is an array of strings.
func isTexts(value []byte) bool {
	if value[0] != '[' {
		return false
	}
	for element := range jsonscan.Elements(value) {
		if element[0] != '"' {
			return false
		}
	}
	return true
}

// isAttackID reports whether text has the form of TA0010, T1048 or T1071.004.
func isAttackID(text string) bool {
	digits, found := strings.CutPrefix(text, "TA")
	if !found {
		if digits, found = strings.CutPrefix(text, "T"); !found {
			return false
		}
	}
	return len(digits) >= 4 && strings.Trim(digits, "0123456789.") == ""
}
