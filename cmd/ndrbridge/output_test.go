package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
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

func TestASinkThatIsNamedTwiceIsReplayedToOnce(t *testing.T) {
	got := require.Value(chosenSinks(t.Context(), nil, []string{"soc", "lake", "soc"}, false))(t)
	assert.EqualSlices(t, got, []string{"lake", "soc"})
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
			assert.Equal(t, command.colours(), c.colours, "colours")
			assert.Equal(t, command.width(), c.width, "width")
		})
	}
}
