package configs

import (
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/test/assert"
)

func TestLoadControlForTheAddressAlone(t *testing.T) {
	for _, test := range []struct {
		name, file string
		environ    []string
		want, err  string
	}{
		{"what the file says", "admin: {listen: '0.0.0.0:9700'}", nil, "0.0.0.0:9700", ""},
		{"the default of a file that says nothing", "state: x", nil, "127.0.0.1:9600", ""},
		{"the environment goes over the file", "admin: {listen: ':1'}", []string{"NDRBRIDGE_ADMIN_LISTEN=:9800"}, ":9800", ""},
		{"a mistake elsewhere does not matter", "colour: red\nadmin: {listen: ':9700', token_file: /nowhere}\nsinks: 5", []string{"NDRBRIDGE_COLOUR=red"}, ":9700", ""},
		{"a value that cannot be read", "state: [1]\nadmin: {listen: [9600]}", nil, "", "admin.listen"},
		{"a block that cannot be read", "admin: 9600", nil, "", "admin"},
		{"a file that is not YAML", "admin: {", nil, "", "is not YAML"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config, err := LoadControl(Source{Paths: []string{writeFile(t, test.file)}, Environ: test.environ}, "admin.listen")
			got := ""
			if err == nil {
				got = config.Admin.Listen
			}
			assert.True(t, got == test.want && (err == nil) == (test.err == "") && (err == nil || strings.Contains(err.Error(), test.err)), got, err, test.want, test.err)
		})
	}
	t.Run("the environment alone", func(t *testing.T) {
		got, err := LoadControl(Source{Environ: []string{"NDRBRIDGE_ADMIN_LISTEN=[::1]:9600"}}, "admin.listen")
		assert.True(t, err == nil && got.Admin.Listen == "[::1]:9600", got, err)
	})
	t.Run("a file that is not there", func(t *testing.T) {
		_, err := LoadControl(Source{Paths: []string{filepath.Join(t.TempDir(), "none.yaml")}}, "admin.listen")
		assert.Error(t, err, "no")
	})
}

func TestLoadControl(t *testing.T) {
	for _, test := range []struct {
		name, file string
		environ    []string
		listen     string
		err        string
	}{
		{"a mistake elsewhere does not matter", "colour: red\nstate: a.db\nadmin: {listen: ':9700'}\nsinks: 5", []string{"NDRBRIDGE_COLOUR=red"}, ":9700", ""},
		{"a value outside its bounds is not checked", "state: a.db\nadmin: {listen: '0.0.0.0:9700'}", nil, "0.0.0.0:9700", ""},
		{"a key of the section that is unknown", "state: a.db\nadmin: {listne: ':9700'}", nil, "", "admin.listne"},
		{"a key below it that is unknown", "state: a.db\nadmin: {tls: {certificate: a.pem}}", nil, "", "admin.tls.certificate"},
		{"a variable of it that is not set", "state: ${NOWHERE}", nil, "", "NOWHERE"},
		{"a cluster that cannot be read", "state: a.db\ncluster: 5", nil, "", "cluster"},
		{"a file that is not YAML", "admin: {", nil, "", "is not YAML"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := writeFile(t, test.file)
			got, err := LoadControl(Source{Paths: []string{file}, Environ: test.environ}, "state", "admin", "cluster")
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.True(t, err == nil && got.Admin.Listen == test.listen && got.State == filepath.Join(filepath.Dir(file), "a.db"), got, err)
		})
	}
}
