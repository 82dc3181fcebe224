package match

import (
	"strings"
	"testing"
)

func TestCompileReportsMistakes(t *testing.T) {
	for _, test := range []struct{ name, expression, want string }{
		{"one equals sign gets the hint to write two", `detection.risk_score = 80`, `column 22, at "= 80": use == to compare`},
		{"three equals signs get the hint to write two", `event.type === "a"`, `column 14, at "= \"a\"": use == to compare`},
		{"an arrow is not at least", `detection.risk_score => 80`, `column 22, at "=> 80": use >= for greater or equal`},
		{"a single ampersand is not and", `true & false`, `column 6, at "& false": use && for and`},
		{"a single bar is not or", `true | false`, `column 6, at "| false": use || for or`},
		{"the word and is not an operator", `true AND false`, `column 6, at "AND false": use && for and`},
		{"the word or is not an operator", `true or false`, `use || for or`},
		{"the word not is not an operator", `not true`, `use ! for not`},
		{"the word not before a bracket is not an operator either", `not(true)`, `column 4, at "(true)": use ! for not`},
		{"unequal of another language gets the hint", `event.type <> "a"`, `use != for not equal`},
		{"a list in round brackets gets the hint", `event.type in ("a", "b")`, `write a list in brackets`},
		{"an operator like is a call here", `detection.title like "DNS"`, `use a function call`},
		{"curly quotes get the hint", `event.type == “a”`, `column 15, at "“a”": use straight quotes`},
		{"a text without its closing quote says so", `event.type == "a`, `column 15, at "\"a": the string has no closing quote`},
		{"an open bracket says that the end is too early", `(event.type == "a"`, `the expression ends too early`},
		{"an empty expression says so", " \n", `the expression is empty`},
		{"a mistyped variable gets a suggestion", `detecton.risk_score > 1`, `column 1, at "detecton.risk_score …": unknown name detecton; did you mean detection?`},
		{"a field without its variable gets a suggestion", `risk_score > 80`, `did you mean detection.risk_score?`},
		{"an attribute without its variable gets a suggestion", `severitynumber > 10`, `did you mean event.severitynumber?`},
		{"a mistyped attribute gets a suggestion", `event.tpye == "x"`, `column 6, at ".tpye == \"x\"": event has no attribute tpye; did you mean event.type?`},
		{"an attribute that resembles none gets the list", `event.zzzzzz == "x"`, `event has no attribute zzzzzz; it has id, source, type`},
		{"a function in the wrong case gets a suggestion", `event.type.startswith("x")`, `unknown function startswith; did you mean startsWith?`},
		{"an unknown macro is reported once, without consequences", `detection.participants.any(p, p.role == "x")`, `unknown function any`},
		{"an attribute compared with the wrong type is reported", `event.severitynumber > "x"`, `> cannot be applied to (int, string)`},
		{"the line is reported if there are several", "event.type == \"a\" &&\nevent.tipe == \"b\"", `line 2, column 6`},
		{"a column counts characters, not bytes", `detection.title == "ü" & true`, `column 24`},
		{"all unknown names are reported at once", `xx == 1 && yyy == 2`, "unknown name yyy"},
		{"an invalid pattern is reported", `detection.title.matches("(a")`, `invalid matches argument`},
		{"an invalid timestamp is reported", `event.time < timestamp("soon")`, `invalid timestamp argument`},
		{"a text is not true or false", `"x"`, `returns a value of type string`},
		{"event as a whole is not a value", `event == event`, `event is not a value itself`},
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
	t.Run("consequences of an unknown function are not reported", func(t *testing.T) {
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
