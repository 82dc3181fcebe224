package notes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"ndrbridge/internal/notes"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

var at = time.Date(2026, 11, 29, 9, 15, 2, 0, time.UTC)

func entry(key, text string) notes.Entry {
	return notes.Entry{Key: key, Time: at, Author: "ana", Text: text}
}

func TestASectionIsReadable(t *testing.T) {
	text := notes.Merge("seen by me", notes.Entry{Key: "41d0", Time: at.Add(time.Millisecond), Author: " ana\nlyst\u202e", Text: "one\r\n\r\n>two\rthree\x00"})
	text = notes.Merge(text, entry("41d1", ""))
	assert.Equal(t, text, `seen by me

--- ndrbridge 89842ebb3a1b5652: write above or below ---
2026-11-29T09:15:02Z ana lyst #41d0
> one
>
> >two
> three
2026-11-29T09:15:02Z ana #41d1
>
--- end of ndrbridge ---`)
}

func TestWhatBelongsToAnalysts(t *testing.T) {
	one := notes.Merge("", entry("1", "a\nb"))
	open, _, _ := strings.Cut(one, "\n")
	const end = "--- end of ndrbridge ---"
	for name, c := range map[string]struct {
		text, analysts string
		keys           string // of the entries
	}{
		"a text without a section":          {"seen\r\n", "seen\r\n", ""},
		"nothing":                           {"", "", ""},
		"nothing beside a section":          {one, "", "1"},
		"what is before and after it":       {"x\n\n" + one + "\ny", "x\ny", "1"},
		"all line breaks but one separator": {"x\n\n\n\n" + one + "\r\n\r\n", "x\n\n\r\n\r\n", "1"},
		"what is before one of CRLF":        {strings.ReplaceAll("x\n\n"+one+"\ny", "\n", "\r\n"), "x\r\ny", "1"},
		"half a line break after it":        {one + "\r", "\r", "1"},
		"a copy of the section":             {one + "\n" + one, "\n" + one, "1"},
		"a section that was edited":         {strings.Replace(one, "> b", "> c", 1), strings.Replace(one, "> b", "> c", 1), ""},
		"one whose author was edited":       {strings.Replace(one, "ana", "bob", 1), strings.Replace(one, "ana", "bob", 1), ""},
		"one with a line more":              {strings.Replace(one, end, "no\n"+end, 1), strings.Replace(one, end, "no\n"+end, 1), ""},
		"one without its end":               {strings.TrimSuffix(one, end), strings.TrimSuffix(one, end), ""},
		"one without its beginning":         {strings.TrimPrefix(one, open), strings.TrimPrefix(one, open), ""},
		"one whose end goes on":             {one + "!", one + "!", ""},
		"one within a line":                 {"x " + one, "x " + one, ""},
		"marks without anything":            {open + "\n" + end, open + "\n" + end, ""},
		"a beginning before the section":    {open + "\n" + one, open + "\n", "1"},
		"an end before the section":         {end + "\n\n" + one, end, "1"},
		"a damaged one before the section":  {open + "\nx\n" + end + "\n\n" + one, open + "\nx\n" + end, "1"},
		"a MiB of beginnings":               {strings.Repeat(open+"\n", 17<<10) + one, strings.Repeat(open+"\n", 17<<10), "1"},
		"a MiB of ends":                     {strings.Repeat(end+"\n", 40<<10) + one, strings.Repeat(end+"\n", 40<<10), "1"},
		"a section around the section":      {open + "\n" + one + "\n" + end, open + "\n\n" + end, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			analysts, entries := notes.Split(c.text)
			assert.Equal(t, analysts, c.analysts)
			assert.Equal(t, keys(entries), c.keys)
			merged := notes.Merge(c.text, entry("new", "text"))
			analysts, entries = notes.Split(merged)
			assert.Equal(t, analysts, c.analysts, "after an entry was added")
			assert.Equal(t, keys(entries), strings.TrimPrefix(c.keys+" new", " "))
		})
	}
}

func keys(entries []notes.Entry) string {
	var keys []string
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return strings.Join(keys, " ")
}

func TestAnEntryOfADamagedSectionIsNotAddedAgain(t *testing.T) {
	text := strings.Replace(notes.Merge("seen", entry("1", "a")), "> a", "> a\nreally?", 1)
	assert.Equal(t, notes.Merge(text, entry("1", "a")), text)
	text = strings.ReplaceAll(text, "\n", "\r\n")
	assert.Equal(t, notes.Merge(text, entry("1", "a")), text)
	_, entries := notes.Split(notes.Merge(text, entry("11", "a")))
	assert.Equal(t, keys(entries), "11")
}

func TestTheOldestEntriesGiveWay(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		least int // entries that are kept
	}{
		"to many":  {"a", 50},
		"to large": {strings.Repeat("é", 4<<10), 15},
		"to those of many lines, which are larger in a section": {strings.Repeat("\n", 8<<10), 7},
	} {
		t.Run(name, func(t *testing.T) {
			text := "before"
			var want []string
			for i := range 120 {
				text = notes.Merge(text, entry(fmt.Sprint(i), c.text))
				want = append(want, fmt.Sprint(i))
			}
			analysts, entries := notes.Split(text + "\nafter")
			assert.Equal(t, analysts, "before\nafter")
			assert.True(t, len(entries) >= c.least && len(entries) <= 50 && len(text) < 65<<10, len(entries), "entries of", len(text))
			assert.Equal(t, keys(entries), strings.Join(want[len(want)-len(entries):], " "))
			assert.True(t, len(entries[0].Text) <= notes.MaxText && utf8.ValidString(entries[0].Text), len(entries[0].Text))
		})
	}
}

// hostile draws a text of pieces of sections.
func hostile(t *rapid.T) string {
	section := notes.Merge("", entry("old", "a\nb"))
	section = notes.Merge(section, entry("older", ""))
	lines := strings.Split(section, "\n")
	pieces := append(lines, section, section[:len(section)/2], section[len(section)/2:], strings.ReplaceAll(section, "\n", "\r\n"),
		"\n", "\n\n", "\r\n", "\r", " ", ">", "#", "\xff", "\xc3", "\u2028", "é", "x", "--- ndrbridge ", strings.Repeat("x", 9<<10))
	drawn := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.String()), 0, 12).Draw(t, "pieces")
	return strings.Join(drawn, rapid.SampledFrom([]string{"", "\n", "\r\n"}).Draw(t, "between"))
}

func TestTheTextOfAnalystsIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := hostile(t)
		first, second := entry("k1", hostile(t)), entry(rapid.String().Draw(t, "key"), rapid.String().Draw(t, "text"))
		second.Author = hostile(t)
		check(t, text, first, second)
	})
}

// check adds two entries to a text.
func check(t require.T, text string, first, second notes.Entry) {
	analysts, before := notes.Split(text)
	require.True(t, before != nil || analysts == text, "without a section, a part is the analysts' text")
	merged := text
	for _, e := range []notes.Entry{first, second} {
		was := merged
		merged = notes.Merge(was, e)
		require.True(t, notes.Merge(merged, e) == merged, "an entry is added twice")
		kept, after := notes.Split(merged)
		require.True(t, kept == analysts, "the text of analysts is not kept")
		if merged == was {
			continue
		}
		require.Equal(t, after[len(after)-1].Key, e.Key)
		require.True(t, strings.HasSuffix(keys(before)+" "+e.Key, keys(after)), keys(before), "became", keys(after))
		before = after
	}
	// Other line endings are no damage, and what follows is not part of it.
	crlf, same := notes.Split(strings.ReplaceAll(strings.ReplaceAll(merged, "\r\n", "\n"), "\n", "\r\n") + "\r\nmore")
	require.True(t, keys(same) == keys(before) && strings.HasSuffix(crlf, "more"), keys(before), "became", keys(same))
}

func FuzzTheTextOfAnalystsIsKept(f *testing.F) {
	section := notes.Merge("", entry("k1", "a"))
	f.Add("seen", "a", "ana", "k2")
	f.Add(section+"\n"+section, section, section, "k1")
	f.Add(section[:40]+"\r\n\xff", "\n--- end of ndrbridge ---", "ana #k1", "k #2")
	f.Fuzz(func(t *testing.T, text, added, author, key string) {
		check(t, text, entry("k1", added), notes.Entry{Key: key, Time: at, Author: author, Text: added})
	})
}
