package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/internal/admin"
)

func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		name        string
		yes         bool
		interactive bool
		answer      string
		want        error
	}{
		{"yes is the answer beforehand", true, false, "", nil},
		{"y is yes", false, true, "y\n", nil},
		{"Yes is yes", false, true, "Yes\n", nil},
		{"an empty answer means no", false, true, "\n", commandline.ErrReported},
		{"the end of the input means no", false, true, "", commandline.ErrReported},
		{"another word means no", false, true, "why\n", commandline.ErrReported},
		{"without a terminal nobody is asked", false, false, "y\n", commandline.ErrUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			command := &command{stdin: strings.NewReader(c.answer), stderr: &out, interactive: c.interactive}
			if err := command.confirm(t.Context(), c.yes, "Drop it?"); !errors.Is(err, c.want) || err != nil && c.want == nil {
				t.Errorf("%v, want %v", err, c.want)
			}
			if asked := strings.Contains(out.String(), "Drop it?"); asked != (c.interactive && !c.yes) {
				t.Errorf("printed %q", &out)
			}
		})
	}
}

func TestAReplayAsksForItsSinks(t *testing.T) {
	twoSinks := make(admin.Operations)
	admin.OpStatus.By(twoSinks, func(context.Context, admin.None) (admin.Status, error) {
		return admin.Status{Sinks: []admin.SinkStatus{{Name: "soc"}, {Name: "lake"}}}, nil
	})
	for _, c := range []struct {
		name, answer string
		interactive  bool
		named        []string
		all          bool
		want         []string
		err          string
	}{
		{"not if they are named", "", true, []string{"soc", "lake", "soc"}, false, []string{"lake", "soc"}, ""},
		{"not if all are to get it", "", false, nil, true, []string{"soc", "lake"}, ""},
		{"one of them", "lake\n", true, nil, false, []string{"lake"}, ""},
		{"some of them", "lake, soc\n", true, nil, false, []string{"lake", "soc"}, ""},
		{"all of them", "all\n", true, nil, false, []string{"soc", "lake"}, ""},
		{"no answer", "\n", true, nil, false, nil, "no sink was named"},
		{"without a terminal", "lake\n", false, nil, false, nil, "give one or more of soc, lake, or --all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := &command{stdin: strings.NewReader(c.answer + "yes\n"), stderr: io.Discard, interactive: c.interactive}
			got, err := command.chosenSinks(t.Context(), admin.NewLocal(twoSinks), c.named, c.all)
			if c.err != "" {
				if !errors.Is(err, commandline.ErrUsage) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q (%v), want %q", got, err, c.want)
			}
			if err := command.confirm(t.Context(), !c.interactive, "Go on?"); err != nil {
				t.Errorf("the answer to the next question: %v", err)
			}
		})
	}
}

func TestColoursRequireATerminal(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		environ  []string
		colours  bool
		width    int
	}{
		{"a file gets none, and whole lines", false, []string{"COLUMNS=80"}, false, 0},
		{"a terminal gets them", true, nil, true, 120},
		{"NO_COLOR turns them off", true, []string{"NO_COLOR=1", "COLUMNS=80"}, false, 80},
		{"an empty NO_COLOR says nothing", true, []string{"NO_COLOR="}, true, 120},
		{"a dumb terminal gets none", true, []string{"TERM=dumb"}, false, 120},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := &command{terminal: c.terminal, environ: c.environ}
			if command.colours() != c.colours || command.width() != c.width {
				t.Errorf("colours %v, width %d", command.colours(), command.width())
			}
		})
	}
}
