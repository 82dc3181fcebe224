package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
)

func TestCommandsFindTheBridgeOfTheirConfiguration(t *testing.T) {
	t.Parallel()
	i := install(t)
	text, err := os.ReadFile(i.config)
	require.NoError(t, err)
	folder := t.TempDir()
	own := filepath.Join(filepath.Dir(i.config), "state.db")
	// other returns a copy of the configuration with changes.
	other := func(name string, changes ...string) string {
		path := filepath.Join(folder, name+".yaml")
		require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer(changes...).Replace(string(text))), 0o600))
		return path
	}
	link := filepath.Join(folder, "link.db")
	require.NoError(t, os.Symlink(own, link))
	existing := filepath.Join(folder, "existing.db")
	store := require.Value(checkpoint.Open(existing, checkpoint.Options{}))(t)
	require.NoError(t, store.Close())
	wrong := filepath.Join(folder, "token")
	require.NoError(t, os.WriteFile(wrong, []byte("another"), 0o600))
	missing := filepath.Join(folder, "none.db")
	stop := i.start()

	i.expect(nil, []expected{
		{[]string{"status", "--config", other("moved")}, 0, []string{"running for"}},
		{[]string{"status", "--config", other("link", own, link)}, 0, []string{"running for"}},
		{[]string{"status", "--config", other("none", own, missing)}, 1, []string{
			"there is no state at " + missing + ", and the bridge at " + i.admin + " (admin.listen) runs with another configuration: its state is " + own, "--admin",
		}},
		{[]string{"status", "--config", other("existing", own, existing)}, 0, []string{"ndrbridge is not running; this is the status in its state file"}},
		{[]string{"status", "--config", other("token", "s3cret-token", "another")}, 1, []string{
			"the bridge refuses the token of this configuration (admin.token, admin.token_file or NDRBRIDGE_ADMIN_TOKEN)",
		}},
		{[]string{"status", "--config", other("elsewhere", i.admin, "127.0.0.1:1")}, 1, []string{
			own + " is in use by another process, and no bridge answers at 127.0.0.1:1 (admin.listen)", "--admin",
		}},
		{[]string{"status", "--admin", "http://" + i.admin}, 1, []string{"the bridge at http://" + i.admin + " requires a token: give a file that contains it with --token-file; that is admin.token"}},
		{[]string{"status", "--admin", "http://" + i.admin, "--token-file", wrong}, 1, []string{"refuses the token in " + wrong}},
	})
	if _, errs := i.run(0, "status", "--config", filepath.Join(folder, "existing.yaml")); !strings.Contains(errs, "runs with another configuration: its state is "+own+"; the command acts on "+existing+" directly") {
		t.Errorf("beside another bridge it reports %q", errs)
	}
	stop()
	i.expect(nil, []expected{{[]string{"status", "--config", i.config}, 0, []string{"ndrbridge is not running"}}})
}

func TestCommandsFindTheBridgeOfAConfigurationThatBecameInvalid(t *testing.T) {
	t.Parallel()
	i := install(t)
	stop := i.start()
	original := require.Value(os.ReadFile(i.config))(t)
	write := func(text string) {
		require.NoError(t, os.WriteFile(i.config, []byte(text), 0o600))
	}
	const mistake = "reload: {wtach: 30s}\n"
	write(string(original) + mistake)
	if out, errs := i.run(0, "status", "--config", i.config); !strings.Contains(out, "running for") ||
		!strings.Contains(errs, "reload.wtach: ") || !strings.Contains(errs, "the configuration is invalid, and the command acts on the bridge at "+i.admin+", which runs with an earlier one") {
		t.Errorf("%s%s", out, errs)
	}
	// The bridge refuses it itself, and remembers that.
	if _, errs := i.run(78, "reload", "--config", i.config); strings.Count(errs, "reload.wtach: ") != 1 {
		t.Error(errs)
	}
	if out, _ := i.run(0, "status", "--config", i.config); !strings.Contains(out, "the configuration was not reloaded") {
		t.Error(out)
	}
	const asks = "to act on a running bridge without its configuration"
	write(strings.Replace(string(original), "admin:", "admin: 5\nwas:", 1))
	if _, errs := i.run(78, "status", "--config", i.config); !strings.Contains(errs, asks) {
		t.Error(errs)
	}
	write(string(original) + mistake)
	stop()
	if _, errs := i.run(78, "status", "--config", i.config); !strings.Contains(errs, asks) {
		t.Error(errs)
	}
}
