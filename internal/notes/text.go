// Package notes adds to the notes of detections. The appliance has one text per detection, which
// its analysts write: the bridge owns a marked section of it, and never changes the rest.
//
//	the text of analysts
//
//	--- ndrbridge 3f9a0c2e1b7d5a64: write above or below ---
//	2026-11-29T09:15:02Z ana #41d0c6a7
//	> a line of the entry
//	> another one
//	--- end of ndrbridge ---
//
// The mark has a digest of the section. If somebody writes in it, it is no section any more but
// text of analysts, and the next entry begins another one.
package notes

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Entry is what the bridge has added to a note.
type Entry struct {
	// Key identifies the entry in its note. It has at most MaxKey bytes.
	Key string
	// Time is kept in whole seconds.
	Time time.Time
	// Author is kept as one line of at most maxAuthor bytes, without invisible characters.
	Author string
	// Text is kept in valid UTF-8 with \n as line ending, without other control characters than
	// tabs, and cut after MaxText bytes.
	Text string
}

// Limits of an entry, in bytes.
const (
	MaxText = 4 << 10
	MaxKey  = 128

	maxAuthor = 256
)

// The limits of a section. The oldest entries give way to a new one.
const (
	maxEntries = 50
	maxSection = 64 << 10
)

const (
	openMark  = "\n--- ndrbridge "
	closeMark = "\n--- end of ndrbridge ---"
)

// Split returns the text of analysts in a note, and the entries in the section of the bridge, the
// oldest first. Without an undamaged section, that is the whole note; of several, the first counts.
func Split(text string) (analysts string, entries []Entry) {
	before, entries, after := cut(text)
	for _, separator := range []string{"\n\n", "\r\n\r\n"} {
		if cut, ok := strings.CutSuffix(before, separator); ok && entries != nil {
			before = cut
			break
		}
	}
	return before + after, entries
}

// Merge returns a note with an entry added to the section of the bridge, which begins behind the
// text if there is none. It returns the same text if that has the entry, even in a section that
// was damaged since. The bytes before and after the section stay as they are.
func Merge(text string, e Entry) string {
	e = e.clean()
	before, entries, after := cut(text)
	for _, old := range entries {
		if old.Key == e.Key {
			return text
		}
	}
	if strings.Contains("\n"+strings.ReplaceAll(text, "\r\n", "\n")+"\n", "\n"+e.head()+"\n") {
		return text
	}
	if entries == nil && text != "" {
		before = text + "\n\n"
	}
	return before + render(newest(append(entries, e))) + after
}

// newest drops the oldest entries beyond the limits of a section.
func newest(entries []Entry) []Entry {
	size := 0
	for i := len(entries) - 1; i >= 0; i-- {
		if size += len(entries[i].lines()); size > maxSection || len(entries)-i > maxEntries {
			return entries[i+1:]
		}
	}
	return entries
}

// cut returns what stands before and after the first undamaged section, and its entries, which are
// nil if there is none.
func cut(text string) (before string, entries []Entry, after string) {
	// Every mark follows a line break, except that of a text that begins with a section.
	lines := "\n" + text
	for from := 0; ; {
		size := strings.Index(lines[from:], closeMark)
		if size < 0 {
			return text, nil, ""
		}
		end := from + size + len(closeMark)
		// A section has no other mark in it. So each byte is looked at once.
		if start := strings.LastIndex(lines[from:end], openMark); start >= 0 {
			start += from + 1
			after := lines[end:]
			whole := after == "" || after[0] == '\n' || after[0] == '\r'
			if entries := parse(lines[start:end]); entries != nil && whole {
				return lines[1:start], entries, after
			}
		}
		from = end
	}
}

// parse returns the entries of a section, or nil if it is not as render has made it, except for
// its line endings.
func parse(section string) []Entry {
	section = strings.ReplaceAll(section, "\r\n", "\n")
	lines := strings.Split(section, "\n")
	lines = lines[1 : len(lines)-1]
	var entries []Entry
	for len(lines) > 0 {
		head, quoted := lines[0], 1
		for quoted < len(lines) && strings.HasPrefix(lines[quoted], ">") {
			lines[quoted] = strings.TrimPrefix(lines[quoted][1:], " ")
			quoted++
		}
		written, rest, _ := strings.Cut(head, " ")
		at := strings.LastIndex(rest, " #")
		if at < 0 {
			return nil
		}
		t, err := time.Parse(time.RFC3339, written)
		if err != nil {
			return nil
		}
		key, err := url.QueryUnescape(rest[at+len(" #"):])
		if err != nil {
			return nil
		}
		entries = append(entries, Entry{Key: key, Time: t, Author: rest[:at], Text: strings.Join(lines[1:quoted], "\n")})
		lines = lines[quoted:]
	}
	if entries == nil || render(entries) != section {
		return nil
	}
	return entries
}

// render returns the section with the given entries, which must be clean.
func render(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.lines())
	}
	sum := sha256.Sum256([]byte(b.String()))
	return fmt.Sprintf("%s%x: write above or below ---%s%s", openMark[1:], sum[:8], b.String(), closeMark)
}

// lines returns the lines of a clean entry, each behind a line break.
func (e Entry) lines() string {
	var b strings.Builder
	b.WriteString("\n" + e.head())
	for line := range strings.SplitSeq(e.Text, "\n") {
		b.WriteString("\n>")
		if line != "" {
			b.WriteString(" " + line)
		}
	}
	return b.String()
}

// head returns the first line of a clean entry.
func (e Entry) head() string {
	return e.Time.Format(time.RFC3339) + " " + e.Author + " #" + url.QueryEscape(e.Key)
}

// clean returns the entry as it is kept.
func (e Entry) clean() Entry {
	e.Time = e.Time.UTC().Truncate(time.Second)
	e.Author = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, e.Author)), " ")
	e.Author = strings.TrimSpace(Shorten(e.Author, maxAuthor))
	e.Text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(e.Text))
	e.Text = Shorten(e.Text, MaxText)
	return e
}

// Shorten cuts a text of valid UTF-8 to at most a number of bytes.
func Shorten(text string, most int) string {
	const ellipsis = "…"
	if len(text) <= most {
		return text
	}
	end := most - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
