package docs

import (
	"testing"

	"ndrbridge/test/assert"
)

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		name     string
		language string
		text     string
		want     [][]string
	}{
		{"a line is a command", "sh", "ndrbridge run\n", [][]string{{"run"}}},
		{"a path leads to the program", "sh", "bin/ndrbridge status --json\n", [][]string{{"status", "--json"}}},
		{"quotes hold words together", "sh", `ndrbridge try match 'a && b' "c \"d\""`, [][]string{{"try", "match", "a && b", `c "d"`}}},
		{"a comment is none", "sh", "ndrbridge check   # ndrbridge run\n# ndrbridge run\n", [][]string{{"check"}}},
		{"a pipe has two", "sh", "ndrbridge tail --json | ndrbridge try render slack\n", [][]string{{"tail", "--json"}, {"try", "render", "slack"}}},
		{"redirections are no arguments", "sh", "ndrbridge run > out 2> log < in 2>&1 &\n", [][]string{{"run"}}},
		{"a substitution is a command", "sh", "source <(ndrbridge completion bash)\n", [][]string{{"completion", "bash"}}},
		{"a loop has a command", "sh", "until A=b sudo ndrbridge status; do sleep 1; done\n", [][]string{{"status"}}},
		{"a here-document has none", "sh", "cat > f <<'END'\nndrbridge fly\nEND\nndrbridge check\n", [][]string{{"check"}}},
		{"a line goes on behind a backslash", "sh", "ndrbridge check \\\n  --config f\n", [][]string{{"check", "--config", "f"}}},
		{"a container runs the program", "sh", "docker exec ndrbridge /ndrbridge status\n", [][]string{{"status"}}},
		{"a service of its name is none", "sh", "systemctl restart ndrbridge\n", nil},
		{"an empty word is a word", "sh", "ndrbridge try match ''\n", [][]string{{"try", "match", ""}}},
		{"what a console prints is none", "console", "$ ndrbridge version\nndrbridge dev\n", [][]string{{"version"}}},
		{"text has none", "text", "ndrbridge fly\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Document{Blocks: []Block{{Language: c.language, Text: c.text}}}
			assert.DeepEqual(t, d.Commands("ndrbridge"), c.want, "it finds")
		})
	}
}
