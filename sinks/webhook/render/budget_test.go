package render_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/sinks/webhook/render"
	"ndrbridge/test/assert"
	"ndrbridge/test/process"
	"ndrbridge/test/require"
)

func TestATemplateThatDoesTooMuchIsEnded(t *testing.T) {
	const participants = `, "participants": [{"a": "b"}, {"a": "b"}]`
	for _, test := range []struct{ name, template, fields string }{
		{"a range over a number that never ends", `{{range 99999999999}}{{end}}`, ``},
		{"a range over a number of the appliance", `{{range (int .detection.risk_score)}}{{end}}`, `, "risk_score": 9000000000000000000`},
		{"ranges within ranges", `{{range 9999}}{{range 9999}}{{range 9999}}{{continue}}{{end}}{{end}}{{end}}`, ``},
		{"a range with a long body", `{{range 99999}}{{if false}}` + strings.Repeat(`{{$.event.id}}`, 1000) + `{{else}}` + strings.Repeat(`{{$x := $.event.id}}`, 1000) + `{{end}}{{end}}`, ``},
		{"a template that calls itself", `{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`, ``},
		{"templates that call themselves twice", `{{define "a"}}{{template "b" .}}{{template "b" .}}{{end}}{{define "b"}}{{template "a" .}}{{end}}{{template "a" .}}`, ``},
		{"a text that doubles", `{{$x := "x"}}{{range 60}}{{$x = print $x $x}}{{end}}`, ``},
		{"a text that doubles in printf", `{{$x := "x"}}{{range 60}}{{$x = printf "%s%s" $x $x}}{{end}}`, ``},
		{"a text that is written many times by one argument of printf", `{{$x := "x"}}{{range 20}}{{$x = printf "` + strings.Repeat("%[1]s", 100) + `" $x}}{{end}}`, ``},
		{"a text that escapes multiply", `{{$x := "<"}}{{range 60}}{{$x = html $x $x}}{{end}}`, ``},
		{"widths of printf", `{{$x := printf "` + strings.Repeat("%999999d", 1000) + `" 1}}`, ``},
		{"widths of printf that are arguments", `{{range 99999}}{{$x := printf "%*d" 999999 1}}{{end}}`, ``},
		{"widths of printf for each element of an object", `{{range 1000}}{{$x := printf "%9999v" $.detection}}{{end}}`, `, ` + manyFields(300)},
		{"a long separator", `{{$s := printf "%99999s" ""}}{{range 9999}}{{$x := join $s $.detection.list}}{{end}}`, `, "list": [1, 2, 3, 4, 5, 6, 7, 8, 9]`},
		{"a long text that is cut again and again", `{{range .detection.list}}{{$x := truncate 5 $.detection.title}}{{end}}`, `, "title": "` + strings.Repeat("x", 5<<20) + `", "list": [` + strings.Repeat("1,", 9999) + `1]`},
		{"long texts that are compared again and again", `{{range .detection.list}}{{if eq $.detection.title $.detection.description}}{{end}}{{end}}`, `, "title": "` + strings.Repeat("x", 1<<20) + `", "description": "` + strings.Repeat("x", 1<<20) + `", "list": [` + strings.Repeat("1,", 99999) + `1]`},
		{"long texts made by the template that are compared again and again", `{{$x := printf "%999999d" 1}}{{$y := print $x}}{{range 99999}}{{if eq $x $y}}{{end}}{{end}}`, ``},
		{"an object that is sorted again and again", `{{range .detection.list}}{{range $.detection.list}}{{range $.detection}}{{break}}{{end}}{{end}}{{end}}`, `, ` + manyFields(5000) + `, "list": [` + strings.Repeat("1,", 999) + `1]`},
		{"an object that is written again and again", `{{range 9999}}{{$x := json $.detection}}{{end}}`, `, "title": "` + strings.Repeat("x", 1<<20) + `"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := event(t, `{"id": 1`+test.fields+participants+`}`)
			template, err := render.Compile(test.template, false)
			if err == nil { // not for a sample
				_, err = template.Render(e, 1<<20)
			}
			if !errors.Is(err, render.ErrTooMuch) || !strings.Contains(err.Error(), "of the template: ") {
				t.Errorf("error %v", err)
			}
			if strings.Contains(err.Error(), "_step") || strings.Contains(err.Error(), "_range") {
				t.Errorf("%v names a function that the template does not call", err)
			}
		})
	}
}

func manyFields(n int) string {
	fields := make([]string, n)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"f%d": 0`, i)
	}
	return strings.Join(fields, ",")
}

func TestALargeEventIsRendered(t *testing.T) {
	participants := strings.Repeat(`{"hostname": "host.example", "username": "ana", "external": false},`, 4999) + `{}`
	e := event(t, `{"id": 1, "title": "`+strings.Repeat("x", 5<<20)+`", "participants": [`+participants+`]}`)
	template, err := render.Compile(`{"title": {{json .detection.title}}, "hosts": [{{range $i, $p := .detection.participants}}{{if $i}}, {{end}}`+
		`{{json (default "unknown" .hostname)}}, {{json (upper .username)}}{{end}}]}`, true)
	require.NoError(t, err)
	if _, err := template.Render(e, 10<<20); err != nil {
		t.Error(err)
	}
}

func TestAnErrorShowsTheTemplateAsItIsWritten(t *testing.T) {
	_, err := render.Compile(`{{range .event.id}}{{.}}{{end}}`, false)
	assert.ErrorContains(t, err, "line 1, column 15 of the template: <.event.id>: range can't iterate over 1-1700000000000")
}

// TestAnyTemplateEndsWithinItsBounds renders templates of a grammar that loops, recurses and
// makes texts of texts. The memory that an execution takes is measured, and not computed from
// its budget.
func TestAnyTemplateEndsWithinItsBounds(t *testing.T) {
	if !process.InChild(t, "-rapid.checks=30") { // most take all of their budget
		return
	}
	e := event(t, `{"id": 1, "title": "`+strings.Repeat("<x\\u0001é", 200)+`", "risk_score": 9000000000000000000, "list": [{"a": [1, 2, 3]}, "b", {}], "object": {`+manyFields(300)+`}}`)
	operand := rapid.SampledFrom([]string{`$x`, `$y`, `.`, `$.detection`, `$.detection.title`, `$.detection.list`, `"<&>"`, `7`, `$.nothing`})
	count := rapid.SampledFrom([]string{`3`, `1000`, `99999999999`, `(int $.detection.risk_score)`, `$.detection.list`, `$.detection.object`, `$.detection`})
	text := rapid.Custom(func(t *rapid.T) string {
		a, b := operand.Draw(t, "a"), operand.Draw(t, "b")
		return fmt.Sprintf(rapid.SampledFrom([]string{
			`print %s %s`, `println %s %s`, `printf "%%q%%+q" %s %s`, `printf "%%[1]v%%[1]v%%[2]v%%[2]v" %s %s`, `printf "%%9999v%%.*v" %s 99999 %s`,
			`html %s %s`, `js %s %s`, `urlquery %s %s`, `json (print %s %s)`, `upper (print %s %s)`, `markdownEscape (print %s %s)`,
			`join (print %s) (default $.detection.list %s)`, `truncate 100 (print %s %s)`, `eq (print %s) (print %s)`, `lt (print %s) (print %s)`,
		}).Draw(t, "call"), a, b)
	})
	var nodes func(t *rapid.T, depth int) string
	nodes = func(t *rapid.T, depth int) string {
		var out strings.Builder
		for range rapid.IntRange(0, 3).Draw(t, "nodes") {
			kind := rapid.IntRange(0, 9).Draw(t, "kind")
			if depth == 0 {
				kind %= 5
			}
			switch kind {
			case 0:
				out.WriteString("text")
			case 1:
				fmt.Fprintf(&out, `{{%s}}`, text.Draw(t, "text"))
			case 2, 3:
				fmt.Fprintf(&out, `{{%s = %s}}`, rapid.SampledFrom([]string{"$x", "$y"}).Draw(t, "variable"), text.Draw(t, "text"))
			case 4:
				fmt.Fprintf(&out, `{{template "%s" .}}`, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "template"))
			case 5, 6, 7:
				fmt.Fprintf(&out, `{{range %s}}%s{{else}}%s{{end}}`, count.Draw(t, "count"), nodes(t, depth-1), nodes(t, depth-1))
			case 8:
				fmt.Fprintf(&out, `{{if %s}}%s{{else}}%s{{end}}`, text.Draw(t, "condition"), nodes(t, depth-1), nodes(t, depth-1))
			default:
				fmt.Fprintf(&out, `{{with %s}}%s{{end}}`, operand.Draw(t, "operand"), nodes(t, depth-1))
			}
		}
		return out.String()
	}
	const begin = `{{$x := "x"}}{{$y := $.detection.title}}`
	rapid.Check(t, func(t *rapid.T) {
		source := fmt.Sprintf(`{{define "a"}}%[1]s%[2]s{{end}}{{define "b"}}%[1]s%[3]s{{end}}%[1]s%[4]s`, begin, nodes(t, 2), nodes(t, 2), nodes(t, 3))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		template, err := render.Compile(source, false)
		if err == nil {
			var out []byte
			if out, err = template.Render(e, 1<<20); len(out) > 1<<20 {
				t.Fatalf("%d bytes of text", len(out))
			}
		}
		runtime.ReadMemStats(&after)
		if err != nil && !errors.Is(err, render.ErrTooMuch) && !errors.Is(err, render.ErrTooLong) && !strings.Contains(err.Error(), "of the template") {
			t.Fatal(err)
		}
		if allocated := int64(after.TotalAlloc - before.TotalAlloc); allocated > 1<<30 {
			t.Fatalf("%d MiB were allocated", allocated>>20)
		}
	})
}
