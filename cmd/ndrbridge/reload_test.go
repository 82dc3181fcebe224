package main

import (
	"os"
	"strings"
	"testing"

	"ndrbridge/test/require"
)

func TestARunningBridgeReloadsOnCommand(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.appliance.AddMany(1)
	i.start()
	i.await("detections", 1)
	text := require.Value(os.ReadFile(i.config))(t)
	for _, c := range []struct {
		name, config, flag string
		exit               int
		want               string
	}{
		{"nothing changed", string(text), "", 0, "nothing changed\n"},
		{"a change", string(text) + "journal: {retain: 1h}\n", "", 0, "journal: changed\n"},
		{"a change as JSON", string(text), "--json", 0, `{"changes":["journal: changed"]}` + "\n"},
		{"an error", string(text) + "colour: red\n", "", 78, "colour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(i.config, []byte(c.config), 0o600))
			args := append([]string{"reload"}, i.byAddress()...)
			if c.flag != "" {
				args = append(args, c.flag)
			}
			out, errs := i.run(c.exit, args...)
			if c.exit == 0 && out != c.want || !strings.Contains(out+errs, c.want) {
				t.Errorf("it prints %q and %q, want %q", out, errs, c.want)
			}
		})
	}
}
