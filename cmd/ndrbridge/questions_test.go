package main

import (
	"testing"

	"ndrbridge/test/assert"
)

// answer runs a command on a terminal on which these lines are typed, and returns what it prints.
func (i *installation) answer(lines string, exit int, args ...string) string {
	i.t.Helper()
	got, out, errs := (&command{interactive: true}).try(i.t, lines, args...)
	if got != exit {
		i.t.Errorf("%v: exit %d, want %d\n%s%s", args, got, exit, out, errs)
	}
	return out + errs
}

func TestReplayAndRewindAskBeforeTheyAct(t *testing.T) {
	t.Parallel()
	r, i, _ := startDelivered(t, 6)
	replay, rewind := []string{"replay", "soc", "--since", "-1h"}, []string{"rewind", "hq", "detections", "--to", "-48h"}
	for _, c := range []struct {
		name, lines string
		args        []string
		exit        int
		want        []string
	}{
		{"no is the answer", "n\n", replay, 1, []string{"again: 6 events to soc, as far as their match selects it? [y/N] ", "nothing was changed"}},
		{"several sinks", "no\n", append([]string{"replay", "log"}, replay[1:]...), 1, []string{"events to log, 6 events to soc"}},
		{"all sinks, and the answer is empty", "\n", append([]string{"replay", "--all"}, replay[2:]...), 1, []string{"events to log", "6 events to soc", "nothing was changed"}},
		{"no sink", "", append([]string{"replay"}, replay[2:]...), 2, []string{"give either the names of sinks or --all"}},
		{"a sink that does not exist", "", append([]string{"replay", "nobody"}, replay[2:]...), 1, []string{`unknown sink "nobody"`}},
		{"a rewind", "n\n", rewind, 1, []string{"Read hq/detections again from ", " on, and deliver what their match selects to all sinks? [y/N] ", "nothing was changed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			printed := i.answer(c.lines, c.exit, append(c.args, i.byAddress()...)...)
			for _, want := range c.want {
				assert.Contains(t, printed, want)
			}
		})
	}
	assert.Equal(t, r.taken.Load(), 6, "events were delivered before a question was answered with yes")
	assert.Contains(t, i.answer("yes\n", 0, append(replay, i.byAddress()...)...), "6 events queued to be delivered to soc again")
	await(t, "the replay", func() bool { return r.taken.Load() == 12 })
	assert.Contains(t, i.answer("y\n", 0, append(rewind, i.byAddress()...)...), "hq/detections will be read again from ")
	await(t, "the rewind", func() bool { return r.taken.Load() == 18 })
}
