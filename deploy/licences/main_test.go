package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTheLicencesOfWhatIsLinkedArePrinted(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run([]string{"../../cmd/ndrbridge", "../../cmd/ndrappliance"}, &out))
	for _, want := range []string{
		"==== Go go", "==== go.etcd.io/bbolt v", "==== github.com/nats-io/nats.go v", "==== github.com/spf13/cobra v",
		"github.com/inconshreveable/mousetrap", // linked on Windows alone
		"Apache License", "Permission is hereby granted", "The Go Authors",
	} {
		assert.Contains(t, out.String(), want)
	}
	assert.NotContains(t, out.String(), "pgregory.net/rapid", "the licence of what only tests use is there")
}

func TestAModuleWithoutALicenceIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		ok   bool
	}{
		"nothing":                       {"main.go", false},
		"a Go file that is called that": {"license.go", false},
		"a licence":                     {"LICENSE", true},
		"a licence with an ending":      {"LICENCE.md", true},
		"one of several licences":       {"LICENSE-APACHE", true},
		"copying":                       {"COPYING", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := module{Path: "example.com/m", Version: "v1.0.0", Dir: t.TempDir()}
			require.NoError(t, os.WriteFile(filepath.Join(m.Dir, c.file), []byte("text"), 0o600))
			err := m.print(io.Discard)
			assert.Equal(t, err == nil, c.ok, err)
		})
	}
}
