package ticketopener_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/test/assert"
	"ndrbridge/test/jira"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/test/ticketserver"
	"ndrbridge/transform"
)

// book holds what was added to notes.
type book struct {
	added []string // each call
	fail  func() error
}

func (b *book) add(_ context.Context, e transform.Event, t ticketopener.Ticket, c ticketopener.Comment) error {
	if b.fail != nil {
		if err := b.fail(); err != nil {
			return err
		}
	}
	b.added = append(b.added, fmt.Sprintf("%s/%s %s %s %s: %s", e.Appliance, e.Subject, t.ID, c.Time.UTC().Format(time.TimeOnly), c.Author, strings.TrimSpace(c.Text)))
	return nil
}

// reading is a following sink that reads comments.
type reading struct {
	*following
	book
}

func newReading(t testing.TB, o *tool) *reading {
	f := &reading{following: newFollowing(t, o)}
	f.notes = &ticketopener.Notes{Add: f.add, Every: time.Minute}
	return f
}

// round reads the comments of all tickets with a new sink, as after a restart.
func (f *reading) round(t testing.TB) error {
	s := f.open(t)
	for {
		if wait, err := s.Poll(t.Context()); err != nil || wait == f.notes.Every {
			return err
		}
	}
}

func TestCommentsBecomeNotes(t *testing.T) {
	eachFollower(t, func(t *testing.T, o *tool) {
		closing := changed(t, 7, 1, "closed", "", "status")
		var many []string
		for n := range 150 {
			many = append(many, fmt.Sprint("ana: comment ", n))
		}
		for _, test := range []struct {
			name string
			do   func(t *testing.T, f *reading, id string)
			want []string // author and text
		}{
			{"one without comments has none", func(*testing.T, *reading, string) {}, nil},
			{"each comes once, the oldest first, and once only", func(t *testing.T, f *reading, id string) {
				o.say(id, "ana", "a scanner\nof ours")
				o.pass(time.Second)
				o.say(id, "ben", "thanks")
				require.NoError(t, f.round(t))
				require.NoError(t, f.round(t))
			}, []string{"ana: a scanner\nof ours", "ben: thanks"}},
			{"the same text again is another comment", func(t *testing.T, f *reading, id string) {
				o.say(id, "ana", "ping")
				require.NoError(t, f.round(t))
				o.say(id, "ana", "ping")
			}, []string{"ana: ping", "ana: ping"}},
			{"what the bridge wrote does not come back", func(t *testing.T, f *reading, id string) {
				require.NoError(t, f.send(t, presettest.FollowUp(t, 7, 1, "noted"), closing))
				require.Equal(t, o.look(id), o.states["closed"].Status+", 2 comments")
			}, nil},
			{"a person who quotes the bridge is a person", func(t *testing.T, f *reading, id string) {
				o.say(id, "ana", "> ndrbridge event hq/1\nis that so?")
			}, []string{"ana: > ndrbridge event hq/1\nis that so?"}},
			{"one that shows late comes too", func(t *testing.T, f *reading, id string) {
				o.say(id, "ana", "first")
				require.NoError(t, f.round(t))
				o.pass(-5 * time.Minute)
				o.say(id, "ben", "late")
				o.pass(5 * time.Minute)
			}, []string{"ana: first", "ben: late"}},
			{"one of a clock far ahead hides none that follow", func(t *testing.T, f *reading, id string) {
				o.pass(10 * time.Hour)
				o.say(id, "ana", "from the future")
				o.pass(-10 * time.Hour)
				require.NoError(t, f.round(t))
				o.say(id, "ben", "now")
			}, []string{"ana: from the future", "ben: now"}},
			{"those of a closed detection come for a day", func(t *testing.T, f *reading, id string) {
				require.NoError(t, f.send(t, closing))
				o.pass(closing.RecordedTime.Add(23 * time.Hour).Sub(o.clock()))
				o.say(id, "ana", "in time")
				require.NoError(t, f.round(t))
				o.pass(2 * time.Hour)
				o.say(id, "ben", "too late")
			}, []string{"ana: in time"}},
			{"more of them than a page come, the oldest first", func(t *testing.T, f *reading, id string) {
				o.say(id, "ana", "before")
				require.NoError(t, f.round(t))
				for _, text := range many {
					o.pass(time.Second)
					o.say(id, "ana", strings.TrimPrefix(text, "ana: "))
				}
			}, append([]string{"ana: before"}, many...)},
			{"those behind one that cannot be added come with it", func(t *testing.T, f *reading, id string) {
				for _, text := range many {
					o.pass(time.Minute)
					o.say(id, "ana", strings.TrimPrefix(text, "ana: "))
				}
				f.fail = func() error { return errorIf(len(f.added) == 70) }
				require.True(t, f.round(t) != nil, "it did not fail")
				require.Equal(t, len(f.added), 70, "notes")
				f.fail = nil
			}, many},
			{"what a move's fields write does not come back", func(t *testing.T, f *reading, id string) {
				if o.noted == nil {
					return
				}
				move := f.follow.States["closed"]
				move.Fields = maps.Clone(move.Fields)
				for _, field := range o.noted {
					move.Fields[field] = "closed at the appliance"
				}
				f.follow.States["closed"] = move
				require.NoError(t, f.send(t, closing))
				require.Equal(t, o.see(id).Comments, 1+len(o.noted), "comments")
			}, nil},
			{"a deleted ticket is no failure", func(_ *testing.T, _ *reading, id string) {
				o.change(id, func(i *ticket) { i.Deleted = true })
			}, nil},
			{"a failed addition is repeated", func(t *testing.T, f *reading, id string) {
				o.say(id, "ana", "a")
				f.fail = func() error { return errorIf(true) }
				require.True(t, f.round(t) != nil, "it did not fail")
				f.fail = nil
			}, []string{"ana: a"}},
		} {
			t.Run(test.name, func(t *testing.T) {
				f := newReading(t, o)
				require.NoError(t, f.send(t, version(t, 7, 0, "new")))
				id := o.last()
				defer o.change(id, func(i *ticket) { i.Deleted = true })
				test.do(t, f, id)
				require.NoError(t, f.round(t))
				var got []string
				for _, line := range f.added {
					about, said, _ := strings.Cut(line, " ")
					require.Equal(t, about, "hq/7")
					ticket, said, _ := strings.Cut(said, " ")
					require.Equal(t, ticket, id)
					_, said, _ = strings.Cut(said, " ")
					got = append(got, said)
				}
				assert.EqualSlices(t, got, test.want)
			})
		}
	})
}

// Whatever fails, and however often the bridge restarts, each comment of a person arrives, and only
// those; and none twice, since the intake takes the same one once.
func TestEachCommentArrivesOnce(t *testing.T) {
	id := 9000
	checkFollowers(t, func(r *rapid.T, o *tool) {
		id++
		f := newReading(t, o)
		f.sendUntilDelivered(t, version(t, id, 0, "new"))
		key := o.last()
		defer o.change(key, func(i *ticket) { i.Deleted = true })
		store := presettest.Faulty(f.memory)
		var want []string
		for n := range rapid.IntRange(1, 6).Draw(r, "comments") {
			o.pass(time.Second)
			if rapid.Bool().Draw(r, "of the bridge") {
				f.sendUntilDelivered(t, changed(t, id, n+1, []string{"acknowledged", "new"}[n%2], "", "status"))
			} else {
				text := fmt.Sprint("comment ", n)
				o.say(key, "ana", text)
				want = append(want, fmt.Sprintf("hq/%d %s %s ana: %s", id, key, o.clock().UTC().Format(time.TimeOnly), text))
			}
			o.fail(rapid.SliceOfN(rapid.SampledFrom([]fault{none, unread, unsaid, busy}), 0, 3).Draw(r, "faults")...)
			addFails := failing(rapid.SliceOfN(rapid.Bool(), 0, 3).Draw(r, "adding fails"))
			memoryFails := failing(rapid.SliceOfN(rapid.Bool(), 0, 3).Draw(r, "the memory fails"))
			f.fail = func() error { return errorIf(addFails()) }
			store.Remember = func() error { return errorIf(memoryFails()) }
			for range rapid.IntRange(0, 3).Draw(r, "rounds") {
				_ = f.round(t)
			}
			o.fail()
			f.fail, store.Remember = nil, nil
		}
		require.NoError(r, f.round(t))
		before := len(f.added)
		require.NoError(r, f.round(t))
		require.Equal(r, len(f.added), before, "calls when all is read")
		var got []string // as the intake takes them
		for _, line := range f.added {
			if !slices.Contains(got, line) {
				got = append(got, line)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		require.Equal(r, strings.Join(got, "\n"), strings.Join(want, "\n"))
	})
}

// A comment on the ticket of a group reaches the note of each detection that was on it when it was
// said, once, whatever fails.
func TestACommentReachesEachDetectionOfItsGroup(t *testing.T) {
	id := 9000
	checkFollowers(t, func(r *rapid.T, o *tool) {
		f := newReading(t, o)
		f.group = newGrouping(t, o).group
		before := len(o.opened())
		defer func() {
			for _, id := range o.opened()[before:] {
				o.change(id, func(i *ticket) { i.Deleted = true })
			}
		}()
		store := presettest.Faulty(f.memory)
		var joined, want []string
		for n := range rapid.IntRange(1, 6).Draw(r, "steps") {
			o.fail(rapid.SliceOfN(rapid.SampledFrom([]fault{none, none, unread, unsaid, busy}), 0, 8).Draw(r, "faults")...)
			memoryFails := failing(rapid.SliceOfN(rapid.Bool(), 0, 3).Draw(r, "the memory fails"))
			store.Remember = func() error { return errorIf(memoryFails()) }
			if joins := rapid.Bool().Draw(r, "another detection"); len(joined) == 0 || joins && len(joined) < f.group.Max {
				id++
				f.sendUntilDelivered(t, with(t, id-len(joined), version(t, id, n, "new")))
				joined = append(joined, strconv.Itoa(id))
			} else {
				o.say(o.last(), "ana", fmt.Sprint("comment ", n))
				for _, detection := range joined {
					want = append(want, fmt.Sprintf("hq/%s %s %s ana: comment %d", detection, o.last(), o.clock().UTC().Format(time.TimeOnly), n))
				}
			}
			for range rapid.IntRange(0, 2).Draw(r, "rounds") {
				_ = f.round(t)
			}
		}
		o.fail()
		store.Remember = nil
		require.NoError(r, f.round(t))
		require.Equal(r, len(o.opened()), before+1, "tickets")
		slices.Sort(f.added)
		slices.Sort(want)
		require.Equal(r, strings.Join(slices.Compact(f.added), "\n"), strings.Join(want, "\n"))
	})
}

func errorIf(fails bool) error {
	if fails {
		return errors.New("not now")
	}
	return nil
}

// The texts of comments in Request Tracker are parts of messages, plain ones or in HTML.
func TestCommentsOfRequestTracker(t *testing.T) {
	o := startRT(t)
	f := newReading(t, o)
	require.NoError(t, f.send(t, version(t, 7, 0, "new")))
	for _, c := range []struct {
		name string
		ticketserver.Comment
		want string
	}{
		{"a comment", ticketserver.Comment{Text: "a\nb"}, "a\nb"},
		{"one with a subject", ticketserver.Comment{Subject: "Re: it", Text: "a"}, "a"},
		{"a reply", ticketserver.Comment{Text: "a", Reply: true}, "a"},
		{"one without a text", ticketserver.Comment{Subject: "a file"}, ""},
		{"paragraphs", ticketserver.Comment{HTML: true, Text: "<p>a &lt;b&gt;\n c</p>\n<p>d<br />\ne</p>"}, "a <b> c\nd\ne"},
		{"a list", ticketserver.Comment{HTML: true, Text: "<ul>\n\t<li>a</li>\n\t<li><b>b</b></li>\n</ul>"}, "a\nb"},
		{"a style", ticketserver.Comment{HTML: true, Text: "<html><head><style>p {color: red}</style></head><!-- x --><body>a</body>"}, "a"},
		{"one that ends in a tag", ticketserver.Comment{HTML: true, Text: "a<b"}, "a<b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.added = nil
			c.Author = "ana"
			o.tickets.Comment(1, c.Comment)
			require.NoError(t, f.round(t))
			_, got, _ := strings.Cut(strings.Join(f.added, ""), " ana: ")
			assert.Equal(t, got, c.want)
		})
	}
}

func TestWorkNotesOfANewRecordDoNotComeBack(t *testing.T) {
	o := startServiceNow(t)
	o.system = require.Value(ticketopener.NewServiceNow(ticketopener.ServiceNowOptions{
		URL: o.url, Table: "incident", Fields: map[string]string{"work_notes": "by the bridge"},
	}))(t)
	f := newReading(t, o)
	require.NoError(t, f.send(t, version(t, 7, 0, "new")))
	require.Equal(t, o.see(o.last()).Comments, 1, "work notes")
	require.NoError(t, f.round(t))
	assert.Equal(t, len(f.added), 0, f.added)
}

func TestPrivateNotesOfRedmineStayThere(t *testing.T) {
	o := startRedmine(t)
	f := newReading(t, o)
	require.NoError(t, f.send(t, version(t, 7, 0, "new")))
	o.tickets.Comment(1, ticketserver.Comment{Author: "ana", Text: "hidden", Private: true})
	o.say("1", "ana", "shown")
	require.NoError(t, f.round(t))
	require.Equal(t, len(f.added), 1, f.added)
	assert.True(t, strings.HasSuffix(f.added[0], "ana: shown"), f.added)
}

// A document of Jira becomes lines, and a comment for a role stays there.
func TestCommentsOfJira(t *testing.T) {
	o := startJira(t)
	f := newReading(t, o)
	require.NoError(t, f.send(t, version(t, 7, 0, "new")))
	for _, c := range []struct{ name, body, role, want string }{
		{"paragraphs", `[{"type":"paragraph","content":[{"type":"text","text":"a "},{"type":"text","text":"b","marks":[{"type":"strong"}]}]},{"type":"paragraph","content":[{"type":"text","text":"c"}]}]`, "", "a b\nc"},
		{"a line break", `[{"type":"paragraph","content":[{"type":"text","text":"a"},{"type":"hardBreak"},{"type":"text","text":"b"}]}]`, "", "a\nb"},
		{"a list", `[{"type":"bulletList","content":[{"type":"listItem","content":[{"type":"paragraph","content":[{"type":"text","text":"a"}]}]},{"type":"listItem","content":[{"type":"paragraph","content":[{"type":"text","text":"b"}]}]}]}]`, "", "a\nb"},
		{"a mention and a card", `[{"type":"paragraph","content":[{"type":"mention","attrs":{"id":"a-1","text":"@Ana"}},{"type":"text","text":" see "},{"type":"inlineCard","attrs":{"url":"https://corp.example/1"}}]}]`, "", "@Ana see https://corp.example/1"},
		{"for a role alone", `[{"type":"paragraph","content":[{"type":"text","text":"hidden"}]}]`, "Administrators", ""},
		{"of an unknown node", `[{"type":"panel","attrs":{"panelType":"info","width":3},"content":[{"type":"paragraph","content":[{"type":"text","text":"a"}]}]}]`, "", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.added = nil
			o.site.Add(o.last(), jira.Comment{Author: "ana", Role: c.role, Body: []byte(`{"type":"doc","version":1,"content":` + c.body + `}`)})
			require.NoError(t, f.round(t))
			_, got, _ := strings.Cut(strings.Join(f.added, ""), " ana: ")
			assert.Equal(t, got, c.want)
		})
	}
}
