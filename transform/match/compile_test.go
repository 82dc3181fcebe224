package match

import (
	"strings"
	"testing"
)

func TestCompileTellsMistakes(t *testing.T) {
	for _, test := range []struct{ name, expression, want string }{
		{"one equals sign gets the hint to write two", `detection.risk_score = 80`, `column 22, at "= 80": to compare, write ==`},
		{"three equals signs get the hint to write two", `event.type === "a"`, `column 14, at "= \"a\"": to compare, write ==`},
		{"an arrow is not at least", `detection.risk_score => 80`, `column 22, at "=> 80": at least is written >=`},
		{"a single ampersand is not and", `true & false`, `column 6, at "& false": and is written &&`},
		{"a single bar is not or", `true | false`, `column 6, at "| false": or is written ||`},
		{"the word and is not an operator", `true AND false`, `column 6, at "AND false": and is written &&`},
		{"the word or is not an operator", `true or false`, `or is written ||`},
		{"the word not is not an operator", `not true`, `not is written !`},
		{"the word not before a bracket is no operator either", `not(true)`, `column 4, at "(true)": not is written !`},
		{"unequal of another language gets the hint", `event.type <> "a"`, `unequal is written !=`},
		{"a list in round brackets gets the hint", `event.type in ("a", "b")`, `a list is written in brackets`},
		{"an operator like is a call here", `detection.title like "DNS"`, `write a call`},
		{"curly quotes get the hint", `event.type == “a”`, `column 15, at "“a”": write straight quotes`},
		{"a text without its closing quote says so", `event.type == "a`, `column 15, at "\"a": the text has no closing quote`},
		{"an open bracket says that the end is too early", `(event.type == "a"`, `the expression ends too early`},
		{"an empty expression says so", " \n", `the expression is empty`},
		{"a mistyped variable gets a suggestion", `detecton.risk_score > 1`, `column 1, at "detecton.risk_score …": unknown name detecton; did you mean detection?`},
		{"a field without its variable gets a suggestion", `risk_score > 80`, `did you mean detection.risk_score?`},
		{"an attribute without its variable gets a suggestion", `severitynumber > 10`, `did you mean event.severitynumber?`},
		{"a mistyped attribute gets a suggestion", `event.tpye == "x"`, `column 6, at ".tpye == \"x\"": event has no attribute tpye; did you mean event.type?`},
		{"an attribute that resembles none gets the list", `event.zzzzzz == "x"`, `event has no attribute zzzzzz; it has id, source, type`},
		{"a function in the wrong case gets a suggestion", `event.type.startswith("x")`, `unknown function startswith; did you mean startsWith?`},
		{"an unknown macro is told once, without what follows from it", `detection.participants.any(p, p.role == "x")`, `unknown function any`},
		{"an attribute compared with the wrong type is told", `event.severitynumber > "x"`, `> cannot be applied to (int, string)`},
		{"the line is told where there are several", "event.type == \"a\" &&\nevent.tipe == \"b\"", `line 2, column 6`},
		{"a column counts characters, not bytes", `detection.title == "ü" & true`, `column 24`},
		{"all unknown names are told at once", `xx == 1 && yyy == 2`, "unknown name yyy"},
		{"a pattern that is none is told", `detection.title.matches("(a")`, `invalid matches argument`},
		{"a timestamp that is none is told", `event.time < timestamp("soon")`, `invalid timestamp argument`},
		{"a text is not true or false", `"x"`, `gives a value of type string`},
		{"event as a whole is no value", `event == event`, `event is no value itself`},
		{"three loops in each other cost too much", `detection.a.exists(x, detection.b.exists(y, detection.c.exists(z, x == y && y == z)))`, `would take too long`},
		{"four loops in each other are too deep", `[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`, `nesting`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Compile(test.expression)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("Compile(%q): %v\nwant an error with %s", test.expression, err, test.want)
			}
		})
	}
	t.Run("what follows from an unknown function is not told", func(t *testing.T) {
		_, err := Compile(`detection.participants.any(p, p.role == "x")`)
		if strings.Contains(err.Error(), "unknown name p") {
			t.Fatal(err)
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`detection.risk_score >= 80`, `x = "`, "a\nb &", `event.type == “ü`, `has(changes.status)`,
		`detection.participants.exists(p, p.role == "offender")`, `record["a"][0].b ? 1 : event.x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		if len(expression) > 500 {
			return
		}
		m, err := Compile(expression)
		if (m == nil) == (err == nil) {
			t.Fatalf("Compile(%q) gives %v and %v", expression, m, err)
		}
		if m != nil {
			if wanted, err := m.Matches(detectionEvent(t, `{"id":1,"risk_score":80}`)); err != nil && !wanted {
				t.Fatalf("%q drops an event with an error: %v", expression, err)
			}
		}
	})
}
