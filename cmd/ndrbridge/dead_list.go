package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/transform"
)

func (c *command) deadListCommand() *cobra.Command {
	var after string
	var limit int
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "list SINK|APPLIANCE/STREAM",
		Short: "List dead letters, the oldest first",
		Long: `List the dead letters of a sink or a stream in the order of their keys. For a sink,
this is the order of the events. With --json, each is printed with its body.`,
		Example: `  ndrbridge dead list lake
  ndrbridge dead list hq/detections
  ndrbridge dead list lake --limit 0 --json > dead.jsonl`,
		Args:              exactly("SINK|APPLIANCE/STREAM"),
		ValidArgsFunction: c.complete(ownerNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			owner, err := parseOwner(args[0])
			if err != nil {
				return err
			}
			return c.acting(func(control admin.Control) error {
				return c.listDead(cmd.Context(), control, deadList{args[0], owner, after, limit})
			})
		},
	}))
	cmd.Flags().StringVar(&after, "after", "", "start after this key")
	cmd.Flags().IntVar(&limit, "limit", 100, "the maximum number of dead letters to list; 0: all")
	return cmd
}

// deadList selects the dead letters to list.
type deadList struct {
	name  string // of the owner, as given on the command line
	owner checkpoint.Owner
	after string
	limit int
}

func (c *command) listDead(ctx context.Context, control admin.Control, l deadList) error {
	t, n, after, more := terminal.NewTable("KEY", "TIME", "CLASS", "EVENT", "REASON"), 0, l.after, false
	for {
		// Dead letters include their bodies, so pages are small.
		const page = 32
		deadLetters, err := control.Dead(ctx, l.owner, after, page)
		if err != nil {
			return err
		}
		if len(deadLetters) == 0 {
			break
		}
		for _, deadLetter := range deadLetters {
			if more = l.limit > 0 && n == l.limit; more {
				break
			}
			n++
			after = deadLetter.Key
			if c.asJSON {
				if err := c.printJSON(deadJSON(deadLetter)); err != nil {
					return err
				}
				continue
			}
			t.Add(deadLetter.Key, deadLetter.Time.UTC().Format(time.RFC3339), deadLetter.Class, eventID(deadLetter), deadLetter.Reason)
		}
		if more {
			break
		}
	}
	switch {
	case c.asJSON:
	case n == 0:
		fmt.Fprintf(c.stdout, "%s has no dead letters\n", l.name)
	default:
		t.Print(c.stdout, c.width(), c.colours())
	}
	if more {
		fmt.Fprintf(c.stderr, "there are more: run ndrbridge dead list %s --after %s, or use --limit 0\n", l.name, after)
	}
	return nil
}

func (c *command) deadShowCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "show SINK|APPLIANCE/STREAM KEY",
		Short: "Show a dead letter in full",
		Long: `Show a dead letter: when and why it was dead-lettered, and the event, or the object as
the appliance returned it. KEY is the first column of ndrbridge dead list.`,
		Example:           "  ndrbridge dead show lake 00000000000000001234",
		Args:              exactly("SINK|APPLIANCE/STREAM", "KEY"),
		ValidArgsFunction: c.complete(ownerNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			owner, err := parseOwner(args[0])
			if err != nil {
				return err
			}
			return c.acting(func(control admin.Control) error {
				deadLetter, err := control.DeadLetter(cmd.Context(), owner, args[1])
				if err != nil {
					return err
				}
				if c.asJSON {
					return c.printJSON(deadJSON(deadLetter))
				}
				_, err = fmt.Fprintf(c.stdout, "key     %s\ntime    %s\nclass   %s\nevent   %s\nreason  %s\n\n%s\n",
					terminal.Printable(deadLetter.Key), deadLetter.Time.UTC().Format(time.RFC3339Nano), terminal.Printable(deadLetter.Class),
					terminal.Printable(eventID(deadLetter)), terminal.Printable(deadLetter.Reason), bodyText(deadLetter.Body))
				return err
			})
		},
	}))
}

// deadLine is a dead letter as JSON. Fields may be added, but never change their meaning.
type deadLine struct {
	Key     string    `json:"key"`
	Class   string    `json:"class"`
	Reason  string    `json:"reason"`
	Time    time.Time `json:"time"`
	EventID string    `json:"event_id,omitempty"`
	// Exactly one is set: Body if the body is valid JSON, BodyBase64 otherwise.
	Body       json.RawMessage `json:"body,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

func deadJSON(d checkpoint.DeadLetter) deadLine {
	line := deadLine{Key: d.Key, Class: d.Class, Reason: d.Reason, Time: d.Time}
	if id := eventID(d); id != "-" {
		line.EventID = id
	}
	if json.Valid(d.Body) {
		line.Body = d.Body
	} else {
		line.BodyBase64 = d.Body
	}
	return line
}

// eventID returns the id of the event that a dead letter holds, or "-" if it holds none.
func eventID(d checkpoint.DeadLetter) string {
	e, err := transform.Parse(d.Body)
	if err != nil {
		return "-"
	}
	return e.ID
}

// bodyText formats a body for a person: JSON indented, other bytes quoted.
func bodyText(body []byte) string {
	var indented bytes.Buffer
	if json.Indent(&indented, body, "", "  ") != nil {
		return strconv.Quote(string(body))
	}
	lines := strings.Split(indented.String(), "\n")
	for i, line := range lines {
		lines[i] = terminal.Printable(line)
	}
	return strings.Join(lines, "\n")
}
