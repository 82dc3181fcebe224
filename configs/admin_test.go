package configs

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestAdminListen(t *testing.T) {
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
			got, err := AdminListen(writeFile(t, test.file), test.environ)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, test.want, test.err)
			}
		})
	}
	t.Run("the environment alone", func(t *testing.T) {
		if got, err := AdminListen("", []string{"NDRBRIDGE_ADMIN_LISTEN=[::1]:9600"}); got != "[::1]:9600" || err != nil {
			t.Error(got, err)
		}
	})
	t.Run("a file that is not there", func(t *testing.T) {
		if _, err := AdminListen(filepath.Join(t.TempDir(), "none.yaml"), nil); err == nil {
			t.Error("no error")
		}
	})
}
