package format

import (
	"bytes"
	"slices"
	"strconv"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// categoryMeaning is what a category of detections stands for in ATT&CK and in the kill
// chain.
type categoryMeaning struct {
	tactics, techniques []string // ids
	phase               int      // of the kill chain; 0: none
}

// categoryMeanings are the meanings by category.
var categoryMeanings = map[string]categoryMeaning{
	"sec.recon":        {[]string{"TA0043", "TA0007"}, nil, 1},
	"sec.exploit":      {[]string{"TA0001", "TA0002"}, nil, 4},
	"sec.command":      {[]string{"TA0011"}, nil, 6},
	"sec.botnet":       {[]string{"TA0011"}, nil, 6},
	"sec.lateral":      {[]string{"TA0008"}, nil, 7},
	"sec.exfil":        {[]string{"TA0010"}, nil, 7},
	"sec.action":       {[]string{"TA0040"}, nil, 7},
	"sec.ransomware":   {[]string{"TA0040"}, []string{"T1486"}, 7},
	"sec.cryptomining": {[]string{"TA0040"}, []string{"T1496"}, 7},
	"sec.dos":          {[]string{"TA0040"}, []string{"T1498", "T1499"}, 7},
}

// attackNames are the names of the tactics and techniques there.
var attackNames = map[string]string{
	"TA0001": "Initial Access", "TA0002": "Execution", "TA0007": "Discovery", "TA0008": "Lateral Movement", "TA0010": "Exfiltration",
	"TA0011": "Command and Control", "TA0040": "Impact", "TA0043": "Reconnaissance",
	"T1486": "Data Encrypted for Impact", "T1496": "Resource Hijacking", "T1498": "Network Denial of Service", "T1499": "Endpoint Denial of Service",
}

// killChainPhases are the names of the phases.
var killChainPhases = map[int]string{1: "Reconnaissance", 4: "Exploitation", 6: "Command & Control", 7: "Actions on Objectives"}

// killChain converts categories to phases, each once.
var killChain = conversion(func(dst, value []byte) ([]byte, fit) {
	var phases [8]bool
	start := len(dst)
	dst = append(dst, '[')
	for category := range elements(value) {
		phase := categoryMeanings[categoryOf(category)].phase
		if phase == 0 || phases[phase] {
			continue
		}
		phases[phase] = true
		dst = append(transform.AppendComma(dst), `{"phase_id":`...)
		dst = strconv.AppendInt(dst, int64(phase), 10)
		dst = appendText(append(dst, `,"phase":`...), killChainPhases[phase])
		dst = append(dst, '}')
	}
	if len(dst) == start+1 {
		return dst, none
	}
	return append(dst, ']'), part
})

// attacks converts an array of a detection's tactics, techniques and categories.
var attacks = conversion(func(dst, value []byte) ([]byte, fit) {
	values := elementsOf(value)
	start := len(dst)
	dst = append(dst, '[')
	dst, tactics := appendAttacks(dst, values[0], appendTactic)
	withTactics := len(dst) > start+1
	dst, techniques := appendAttacks(dst, values[1], appendTechnique)
	withTechniques := len(dst) > start+1 && !withTactics
	f := min(tactics, techniques)
	if !withTactics {
		dst = appendMeant(dst, values[2], withTechniques)
	}
	if len(dst) == start+1 {
		return dst, none
	}
	if values[2] != nil && !isTexts(values[2]) {
		f = part // the categories are not in another field
	}
	return append(dst, ']'), f
})

// appendMeant appends the attacks that categories stand for, each once.
func appendMeant(dst, categories []byte, withTechniques bool) []byte {
	var seen []string
	add := func(meant []attack, each func([]byte, attack) ([]byte, fit)) {
		for _, a := range meant {
			if slices.Contains(seen, string(a.id)) {
				continue
			}
			seen = append(seen, string(a.id))
			dst, _ = each(append(transform.AppendComma(dst), '{'), a)
			dst = append(dst, '}')
		}
	}
	for category := range elements(categories) {
		add(tacticsOfCategory[categoryOf(category)], appendTactic)
		if !withTechniques {
			add(techniquesOfCategory[categoryOf(category)], appendTechnique)
		}
	}
	return dst
}

// attack is a tactic or technique: scalar JSON values, nil if absent.
type attack struct {
	id, name, reference []byte
	legacy              []byte // the value of legacy_ids
}

// parseAttack reads an object of a detection's tactics or techniques. Complete reports whether
// it has nothing else.
func parseAttack(object []byte) (a attack, complete bool) {
	complete = true
	for name, member := range jsonscan.Members(object) {
		if string(member) == "null" || isEmpty(member) {
			continue
		}
		var into *[]byte
		switch string(name) {
		case "id":
			into = &a.id
		case "name":
			into = &a.name
		case "url":
			into = &a.reference
		case "legacy_ids":
			a.legacy = member
			continue
		}
		if into == nil || member[0] == '{' || member[0] == '[' || *into != nil {
			complete = false
		} else {
			*into = member
		}
	}
	return a, complete
}

// appendAttacks appends an object for each element of an array.
func appendAttacks(dst, list []byte, each func(dst []byte, a attack) ([]byte, fit)) ([]byte, fit) {
	f := whole
	for element := range elements(list) {
		if string(element) == "null" {
			continue
		}
		a, complete := readAttack(element)
		for id := range elements(a.legacy) {
			complete = complete && bytes.Equal(id, a.id) // mostly the same id again
		}
		start := len(dst)
		dst = append(transform.AppendComma(dst), '{')
		var of fit
		dst, of = each(dst, a)
		if of == none {
			dst = dst[:start]
		} else {
			dst = append(dst, '}')
		}
		if of != whole || !complete {
			f = part
		}
	}
	return dst, f
}

// appendTactic appends the members of an attack that is a tactic.
func appendTactic(dst []byte, a attack) ([]byte, fit) { return appendNamed(dst, "tactic", a) }

// appendTechnique appends the members of an attack that is a technique or a part of one.
func appendTechnique(dst []byte, a attack) ([]byte, fit) {
	if parent, _, found := bytes.Cut(a.id, []byte(".")); found && isAttackID(categoryOf(a.id)) {
		dst = append(dst, `"technique":{"uid":`...)
		dst = append(append(dst, parent...), `"},`...)
		return appendNamed(dst, "sub_technique", a)
	}
	return appendNamed(dst, "technique", a)
}

// appendNamed appends an object with an id, a name or both.
func appendNamed(dst []byte, kind string, a attack) ([]byte, fit) {
	dst = append(append(append(dst, '"'), kind...), `":{`...)
	start := len(dst)
	dst, id := appendField(dst, "uid", text, a.id)
	dst, name := appendField(dst, "name", text, a.name)
	if len(dst) == start {
		return dst, none
	}
	dst, url := appendField(dst, "src_url", webURL, a.reference)
	f := whole
	for i, value := range [][]byte{a.id, a.name, a.reference} {
		if value != nil && !isEmpty(value) && []fit{id, name, url}[i] != whole {
			f = part
		}
	}
	return append(dst, '}'), f
}
