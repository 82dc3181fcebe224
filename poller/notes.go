package poller

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/notes"
	"ndrbridge/transform"
)

// StreamNotes is the name of the stream of notes.
const StreamNotes = transform.StreamDetections + "/notes"

const (
	// notesChunk is how many detections a poll asks about.
	notesChunk = 100
	// noteClosed is how long a detection is asked about after it was closed.
	noteClosed = 24 * time.Hour
	// maxNote bounds the text of a note in an event, and maxNoteAuthor its author, in bytes.
	maxNote, maxNoteAuthor = 64 << 10, 256
)

// Notes is the source of the notes that people write about detections. In each round it asks
// about every detection that is remembered as open, or was closed within noteClosed, the newest
// first, with one request for each. A text becomes one event, which is committed with a digest of
// the text. Its position is where the round stands, so a restart continues it.
type Notes struct {
	stream
	client      *appliance.Client
	known       FollowUpStore
	detections  checkpoint.Source
	o           StreamOptions
	forgetAfter time.Duration
	position    notesPosition
	page        appliance.Page
}

// notesPosition is the position of Notes. Times are in milliseconds since the epoch.
type notesPosition struct {
	// Began is when the round began by the bridge's clock, 0 if none is under way; Last is that
	// of the last whole round, or the first contact.
	Began int64 `json:"began,omitempty"`
	Last  int64 `json:"last"`
	// At and ID are those of the last detection that the round has asked about.
	At int64 `json:"mod_time,omitempty"`
	ID int64 `json:"id,omitempty"`
}

// NewNotes returns a source that continues from the position in store. forgetAfter is how long
// detections are remembered.
func NewNotes(client *appliance.Client, store FollowUpStore, o StreamOptions, forgetAfter time.Duration) *Notes {
	n := &Notes{
		stream: newStream(store, StreamNotes, o), client: client, known: store, o: o, forgetAfter: forgetAfter,
		detections: checkpoint.Source{Appliance: o.Appliance, Stream: transform.StreamDetections},
	}
	n.page.Bind()
	return n
}

// Poll asks about the next detections of a round. It returns Now until the round has ended.
func (n *Notes) Poll(ctx context.Context) (Next, error) { return n.run(ctx, n.load, n.poll) }

func (n *Notes) poll(ctx context.Context) (Next, error) {
	now := n.o.Now().UnixMilli()
	if n.position.Began == 0 {
		n.position.Began = now
	}
	forget, err := forgottenBefore(ctx, n.store, n.detections, n.forgetAfter)
	if err != nil {
		return Idle, err
	}
	due, more, err := n.due(ctx, now-noteClosed.Milliseconds(), forget)
	if err != nil {
		return Idle, err
	}
	n.progress.reached(n.position.Last, max(1, now-n.position.Last))
	var unsaved []checkpoint.Entry
	var dead []checkpoint.DeadLetter
	save := func(events ...transform.Event) error {
		c := checkpoint.Commit{Events: events, Remember: unsaved, Dead: dead, ForgetBefore: forget}
		unsaved, dead = nil, nil
		return n.write(ctx, c, encodePosition(n.position))
	}
	for _, d := range due {
		entry, event, err := n.ask(ctx, d)
		if err != nil {
			if !n.onlyThat(ctx, strconv.FormatInt(d.id, 10), fmt.Sprintf("the note of detection %d", d.id), err, func() error {
				_, err := n.client.DetectionModTime(ctx, d.id)
				return err
			}) {
				if failed := save(); failed != nil {
					return Idle, failed
				}
				return Idle, err
			}
			dead = append(dead, deadLetter(strconv.FormatInt(d.id, 10)+"-note", err, nil, n.o.Now()))
		}
		delete(n.objects, strconv.FormatInt(d.id, 10))
		n.position.At, n.position.ID = d.modTime, d.id
		if entry != nil {
			unsaved = append(unsaved, *entry)
		}
		if event != nil {
			if err := save(*event); err != nil {
				return Idle, err
			}
		}
	}
	next := Now
	if !more {
		n.position, next = notesPosition{Last: n.position.Began}, Idle
	}
	if err := save(); err != nil {
		return Idle, err
	}
	if next == Idle {
		n.progress.caughtUp(n.position.Last)
	}
	return next, nil
}

// load takes over the committed position.
func (n *Notes) load(ctx context.Context) (err error) {
	if n.committed == nil {
		n.position = notesPosition{Last: n.o.Now().UnixMilli()}
		return n.write(ctx, checkpoint.Commit{}, encodePosition(n.position))
	}
	n.position, err = parsePosition[notesPosition](n.committed)
	return err
}

// remembered is a detection that a source remembers.
type remembered struct {
	id int64
	known
}

// due returns the next detections of the round, the newest first, and whether there are more.
// A closed one is left out if it changed before a time, and so is any that is about to be
// forgotten.
func (n *Notes) due(ctx context.Context, closed, forget int64) (due []remembered, more bool, err error) {
	newer := func(a, b remembered) int { return cmp.Or(cmp.Compare(b.modTime, a.modTime), cmp.Compare(b.id, a.id)) }
	asked := remembered{n.position.ID, known{modTime: n.position.At}}
	err = eachDetection(ctx, n.known, n.detections, func(d remembered) {
		switch {
		case len(d.tracked) == 0, d.modTime < forget:
		case d.modTime < closed && transform.IsClosed(d.tracked):
		case n.position.At != 0 && newer(asked, d) >= 0:
		default:
			at, _ := slices.BinarySearchFunc(due, d, newer)
			if at == notesChunk {
				more = true
				return
			}
			due = slices.Insert(due, at, d)
			if len(due) > notesChunk {
				due, more = due[:notesChunk], true
			}
		}
	})
	return due, more, err
}

// eachDetection calls do for the detections that a source remembers.
func eachDetection(ctx context.Context, store FollowUpStore, detections checkpoint.Source, do func(remembered)) error {
	return eachRemembered(ctx, store, detections, func(entries []checkpoint.Entry) error {
		for _, e := range entries {
			id, err := strconv.ParseInt(e.Key, 10, 64)
			if err != nil || id <= 0 { // not one of a detection that can be asked for
				continue
			}
			k, err := parseKnown(e.Value)
			if err != nil {
				return err
			}
			do(remembered{id, k})
		}
		return nil
	})
}

// forgottenBefore returns the mod_time before which a detections source forgets what it knows;
// 0 if it has no position.
func forgottenBefore(ctx context.Context, store Store, detections checkpoint.Source, after time.Duration) (int64, error) {
	stored, err := store.Position(ctx, detections)
	if err != nil || stored == nil {
		return 0, err
	}
	p, err := parsePosition[detectionsPosition](stored)
	return max(0, p.ModTime-after.Milliseconds()), err
}

// note is what an event says of a note.
type note struct {
	Text   string `json:"text"`
	Author string `json:"author,omitempty"`
	Time   int64  `json:"time,omitzero"`
}

// ask asks for the note of a detection. It returns the event of a text that is not known, and what
// to remember if that is not remembered yet.
func (n *Notes) ask(ctx context.Context, d remembered) (*checkpoint.Entry, *transform.Event, error) {
	defer n.page.Release()
	read, err := n.client.Note(ctx, d.id, &n.page)
	if e, ok := errors.AsType[*appliance.Error](err); ok {
		switch e.Status {
		case http.StatusNotFound:
			return nil, nil, nil // it has none
		case http.StatusUnprocessableEntity:
			return nil, nil, fmt.Errorf("%w: turn external ticket tracking on there, or set notes.in to false: %w", errOff, err)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	said := note{Author: read.Author, Time: read.Time}
	if said.Text, _ = notes.Split(read.Text); said.Text == "" {
		return nil, nil, nil
	}
	key := strconv.FormatInt(d.id, 10)
	sum := sha256.Sum256([]byte(said.Text))
	values, err := n.store.Recall(ctx, n.source, []string{key})
	if err != nil {
		return nil, nil, fmt.Errorf("recall the note of detection %d: %w", d.id, err)
	}
	// The digest is followed by the mod_time up to which the entry is kept as long as the
	// detection itself.
	entry := &checkpoint.Entry{Key: key, Value: strconv.AppendInt(bytes.Clone(sum[:]), d.modTime, 10), At: d.modTime}
	switch {
	case bytes.Equal(values[0], entry.Value):
		return nil, nil, nil
	case bytes.HasPrefix(values[0], sum[:]):
		return entry, nil, nil
	}
	if len(said.Text) > maxNote {
		said.Text = fmt.Sprintf("%s… (cut: %d bytes, sha256 %x)", strings.ToValidUTF8(said.Text[:maxNote], ""), len(said.Text), sum)
	}
	said.Author = strings.ToValidUTF8(said.Author[:min(len(said.Author), maxNoteAuthor)], "")
	event, err := n.events.FollowUp(transform.FollowUp{
		// The same text can return after another one.
		Kind: "noted", Key: fmt.Sprintf("%d-%x", said.Time, sum[:4]),
		Detection: transform.Remembered(d.id, d.modTime, d.created, d.tracked),
		At:        n.page.Date, Recorded: n.o.Now(), Name: "note", Value: said,
	})
	return entry, &event, err
}
