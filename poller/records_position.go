package poller

import (
	"math"
	"slices"
	"strconv"
)

// recordsPosition is the position of a records source. All times are the appliance's own,
// in milliseconds since the epoch.
type recordsPosition struct {
	// Until is the time up to which every record was seen, except records that are
	// stored late.
	Until int64 `json:"until"`
	// Start is what the stream's start resolved to at the first contact.
	Start int64 `json:"start"`
	// Clock is the latest time among the appliance's answers.
	Clock int64 `json:"clock"`
	// Serial is the serial of the newest list.
	Serial uint64 `json:"serial,omitempty"`
	// Lists name the committed records that can be shown again.
	Lists []recordList `json:"lists,omitempty"`
	// URL, Types and Filter are those last used, so that a change can be detected.
	URL    string `json:"url"`
	Types  string `json:"types,omitempty"`
	Filter string `json:"filter,omitempty"`
}

// recordList names the records that were committed while a window was read, in Parts
// remembered entries. A window that ends after the position was not read to its end; the
// next window, whatever its bounds, leaves out the records that the list names.
type recordList struct {
	Serial uint64 `json:"serial"`
	From   int64  `json:"from"`
	Until  int64  `json:"until"`
	Parts  int    `json:"parts,omitempty"`
	// Due is when to request the window's total again; 0: never.
	Due int64 `json:"due,omitempty"`
	// Total is how many records it had when it was read; -1: not known.
	Total int64 `json:"total"`
}

// partKey returns the key of the nth entry of a list.
func (l recordList) partKey(n int) string {
	return strconv.FormatUint(l.Serial, 10) + "/" + strconv.Itoa(n)
}

// touches reports whether a record can be in the windows of both lists. How bounds are
// compared is not known, so one millisecond more counts.
func (l recordList) touches(o recordList) bool {
	return l.Until >= o.From-1 && o.Until >= l.From-1
}

// with returns the position with a list added or replaced.
func (p recordsPosition) with(l recordList) recordsPosition {
	p.Lists = slices.Clone(p.Lists)
	if i := p.list(l.Serial); i >= 0 {
		p.Lists[i] = l
	} else {
		p.Lists = append(p.Lists, l)
	}
	p.Serial = max(p.Serial, l.Serial)
	return p
}

// list returns the index of a list; -1 if there is none.
func (p recordsPosition) list(serial uint64) int {
	return slices.IndexFunc(p.Lists, func(l recordList) bool { return l.Serial == serial })
}

// pruned returns the position without the lists that are no longer needed: their total
// will not be checked again, and they touch neither a window whose total will be nor the
// range read next.
func (p recordsPosition) pruned() recordsPosition {
	next := recordList{From: p.Until - 1, Until: math.MaxInt64}
	kept := make([]recordList, 0, len(p.Lists))
	for _, l := range p.Lists {
		awaited := func(o recordList) bool { return o.Due > 0 && o.touches(l) }
		if l.Due > 0 || l.Parts > 0 && (l.touches(next) || slices.ContainsFunc(p.Lists, awaited)) {
			kept = append(kept, l)
		}
	}
	p.Lists = kept
	return p
}

// oldest returns the lowest At of the lists' remembered entries, which no entry of a
// future list is below.
func (p recordsPosition) oldest() int64 {
	oldest := p.Until
	for _, l := range p.Lists {
		oldest = min(oldest, l.Until)
	}
	return oldest
}

// rewind moves the position back to a time, if that is older. The lists of windows from
// there on are emptied, so that everything in them is delivered again. A window whose total
// is to be checked is still checked, since its first part may be before that time.
func (p *recordsPosition) rewind(to int64) {
	to = max(to, 1)
	if to >= p.Until {
		return
	}
	p.Until, p.Start = to, min(p.Start, to)
	var kept []recordList
	for _, l := range p.Lists {
		if l.Until >= to {
			l.Parts = 0
		}
		if l.Until < to || l.Due > 0 {
			kept = append(kept, l)
		}
	}
	p.Lists = kept
}

// hashSize is the length of a record's hash in a list's entry.
const hashSize = 8
