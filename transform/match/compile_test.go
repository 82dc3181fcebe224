package match

import (
	"maps"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
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
		{"a text without quotes that resembles a variable", `event.stream == detections`, `unknown name detections; write a text with quotes, as in "detections"; or did you mean detection?`},
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
		{"an invalid pattern is reported", `detection.title.matches("(a")`, `not a regular expression of RE2: check its brackets`},
		{"an invalid timestamp is reported", `event.time < timestamp("soon")`, `invalid timestamp argument`},
		{"a number compared with a text is reported", `detection.risk_score >= "80"`, `column 22, at ">= \"80\"": >= cannot be applied to (int, string): a number is written without quotes, a text with quotes`},
		{"a number that equals a text is reported", `detection.risk_score == "80"`, `== cannot be applied to (int, string)`},
		{"a number in a list of texts is reported", `detection.risk_score in ["80", "90"]`, `in cannot be applied to (int, list(string)): a number is written without quotes`},
		{"a text beside and is reported", `detection.recommended && detection.title`, `column 35, at ".title": expected true or false, but this is a text`},
		{"a function of another type is reported", `detection.risk_score.startsWith("8")`, `startsWith cannot be applied to int.(string)`},
		{"a time of the appliance is not a timestamp", `detection.mod_time > timestamp("2026-01-01T00:00:00Z")`, `milliseconds since the epoch; compare event.time`},
		{"in does not look for a part of a text", `"DNS" in detection.title`, `for a part of a text, use detection.title.contains("DNS")`},
		{"a text alone is not true or false", `detection.title`, `returns a value of type string`},
		{"a list has no fields", `detection.participants.role == "offender"`, `column 23, at ".role == \"offender\"": a list has no fields: select an element`},
		{"a text has no fields", `has(detection.title.below)`, `a text has no fields`},
		{"a mistyped field gets a suggestion and the fields", `detection.riskscore >= 80`, `column 10, at ".riskscore >= 80": a detection has no documented field riskscore; did you mean risk_score? (documented: id, appliance_id, type,`},
		{"a field that is not documented has its own syntax", `detection.new_field == 1`, `a detection has no documented field new_field (documented: id, appliance_id, type, title, description, categories, risk_score, start_time, end_time, update_time, mod_time, create_time, status, resolution, assignee, ticket_id, ticket_url, url, recommended, recommended_factors, is_user_created, participants, properties, mitre_tactics, mitre_techniques, ai_disposition; write ["new_field"] instead of .new_field for a field that only your appliance has)`},
		{"a mistyped field in has is reported", `has(detection.asignee)`, `did you mean assignee?`},
		{"a mistyped field of a participant is reported", `detection.participants.exists(p, p.rol == "offender")`, `column 35, at ".rol == \"offender\")": a participant has no documented field rol; did you mean role?`},
		{"a mistyped field of a chosen participant is reported", `detection.participants[0].user == "a"`, `column 26, at ".user == \"a\"": a participant has no documented field user (documented: id, role,`},
		{"a mistyped field of an audit log entry is reported", `audit.boby.user == "ana"`, `an audit log entry has no documented field boby; did you mean body?`},
		{"a field that has no changes is reported", `changes.description.to == "x"`, `the changes of a detection has no documented field description`},
		{"a change has two values", `changes.status.now == "closed"`, `the change of status has no documented field now`},
		{"a change has its field's type", `changes.risk_score.to >= "80"`, `>= cannot be applied to (int, string)`},
		{"a documented field of a record has its type", `record._type == 5`, `== cannot be applied to (string, int)`},
		{"a mistyped field without its variable gets a suggestion", `riskscore >= 80`, `unknown name riskscore; names begin with event, detection, audit, record, changes, context, lifecycle, visibility, note, evidence, rule, blindspot: did you mean detection.risk_score?`},
		{"a field of several variables gets all suggestions", `id == 7`, `did you mean event.id or detection.id or audit.id or rule.id or blindspot.id?`},
		{"a mistyped field of a follow-up is reported", `note.txt.contains("x")`, `a note has no documented field txt; did you mean text?`},
		{"a state of visibility that is not there is reported", `visibility.state == "hiden"`, `did you mean "hidden"?`},
		{"a text without quotes gets the hint", `event.stream == hallway`, `a text is written with quotes`},
		{"a loop over a detection is not possible", `detection.exists(n, n == "x")`, `a loop needs a list`},
		{"a severity of an earlier version is reported", `detection.recommended && event.severitytext in ["critical", "ERROR"]`, `column 61, at "\"ERROR\"]": event.severitytext is never "ERROR"; did you mean "high"?`},
		{"a severity of an earlier version is reported on either side", `"FATAL" != event.severitytext`, `did you mean "critical"?`},
		{"a source of an earlier version is reported", `!event.source.endsWith("/auditlog")`, `event.source.endsWith("/auditlog") is never true; did you mean "/audit"?`},
		{"a stream that is not there gets a suggestion", `event.stream == "detection"`, `column 17, at "\"detection\"": event.stream is never "detection"; did you mean "detections"?`},
		{"a type without its beginning gets it", `event.type == "detection.created"`, `did you mean "io.ndrbridge.detection.created"?`},
		{"a mistyped type without its beginning gets it", `event.type == "detection.update"`, `did you mean "io.ndrbridge.detection.updated"?`},
		{"a type in place of an action is reported", `event.action == "detection.created"`, `did you mean "created"?`},
		{"a severity in capitals is reported", `"HIGH" != event.severitytext`, `column 1, at "\"HIGH\" != event.seve…": event.severitytext is never "HIGH"; did you mean "high"?`},
		{"the source of an earlier version is reported", `event.source == "ndrbridge://hq/auditlog"`, `did you mean "ndrbridge://hq/audit"?`},
		{"the beginning of no type is reported", `event.type.startsWith("detection.")`, `event.type.startsWith("detection.") is never true; did you mean "io.ndrbridge.detection."?`},
		{"the end of no type is reported", `event.type.endsWith(".deleted")`, `event.type.endsWith(".deleted") is never true (values: io.ndrbridge.detection.created,`},
		{"a severity's number between two is reported", `event.severitynumber == 15`, `event.severitynumber is never 15 (values: 9, 13, 17, 21)`},
		{"a severity's number above all is reported", `event.severitynumber > 21`, `event.severitynumber is never > 21`},
		{"a comparison that is always true is reported", `event.severitynumber > 0`, `event.severitynumber is always > 0`},
		{"a score above 100 is reported", `detection.risk_score > 100`, `column 24, at "100": detection.risk_score is never > 100 (values: 0 to 100; write detection["risk_score"] for one that only your appliance has)`},
		{"a score below 0 on the left is reported", `0 > detection.risk_score`, `detection.risk_score is never < 0`},
		{"a score that equals a fraction is reported", `detection.risk_score == 0.5`, `detection.risk_score is never 0.5`},
		{"a status in a list is reported", `detection.status in ["new", null, "In progress"]`, `column 35, at "\"In progress\"]": detection.status is never "In progress"; did you mean "in_progress"?`},
		{"a status that resembles none gets the values", `detection.status == "escalated"`, `detection.status is never "escalated" (values: new, in_progress, closed, acknowledged, open; write detection["status"] for one that only your appliance has)`},
		{"a changed status is reported", `changes.status.to == "close"`, `did you mean "closed"?`},
		{"a changed status that resembles none has its own syntax", `changes.status.to == "escalated"`, `write changes["status"].to for one that only your appliance has`},
		{"the severity gets its attribute", `severity == "high"`, `did you mean event.severitytext (unknown, low, medium, high, critical) or detection.risk_score?`},
		{"a list compared with a text is reported", `detection.categories == "sec"`, `write "sec" in detection.categories`},
		{"a changed score is reported", `changes.risk_score.from >= 101`, `changes.risk_score.from is never >= 101`},
		{"a resolution in a condition is reported", `detection.resolution == "none" ? true : false`, `detection.resolution is never "none"`},
		{"a value in a loop is reported", `detection.participants.exists(p, p.external && detection.status == "opened")`, `did you mean "open"?`},
		{"a cause is reported", `!has(event.causedby) || event.causedby != "writebacks"`, `did you mean "writeback"?`},
		{"every value is reported", `event.stream == "a" || event.action in ["b"]`, "event.action is never \"b\""},
		{"a value beside a fraction is reported", `detection.risk_score > 60.5 && event.stream == "detection"`, `did you mean "detections"?`},
		{"a missing field is not taken for one of event", `event.foo == 1 || detection.foo == 1`, `column 6, at ".foo == 1 || detecti…": event has no attribute foo`},
		{"a text is not true or false", `"x"`, `returns a value of type string`},
		{"event as a whole is not a value", `event == event`, `event is not a value itself`},
		{"three loops in each other cost too much", `detection.properties.a.exists(x, detection.properties.b.exists(y, detection.properties.c.exists(z, x == y && y == z)))`, `would take too long`},
		{"four loops in each other are too deep", `[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`, `nesting`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Compile(test.expression)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("Compile(%q): %v\nwant an error with %s", test.expression, err, test.want)
			}
		})
	}
	t.Run("the documented fields are listed once", func(t *testing.T) {
		_, err := Compile(`detection.foo == 1 || detection.bar == 2`)
		require.Equal(t, strings.Count(err.Error(), "documented:"), 1, "lists in", err)
	})
	t.Run("consequences of an unknown function are not reported", func(t *testing.T) {
		_, err := Compile(`detection.participants.any(p, p.role == "x")`)
		if strings.Contains(err.Error(), "unknown name p") {
			t.Fatal(err)
		}
	})
}

func TestWhatMayBeRightCompiles(t *testing.T) {
	for _, test := range []struct{ name, expression string }{
		{"a field of several types", `detection.ticket_id == 2996 || detection.ticket_id == "2996"`},
		{"null for any field", `detection.assignee == null || null != detection.risk_score || detection.participants == null || detection.status in ["closed", null] || null in detection.categories`},
		{"an integer and a fraction", `detection.risk_score > 60.5 || detection.risk_score == 61.0 || detection.risk_score in [60.0, 61.0]`},
		{"values of different types by a condition", `(detection.recommended ? detection.risk_score : "none") == "none"`},
		{"a field that is not documented, by an index", `detection["new_field"] == 1 && detection["new_field"].below.it == "x" && detection.participants[0]["tag"] == "a"`},
		{"whether there is a field that is not documented", `"new_field" in detection && detection.participants.exists(p, "tag" in p)`},
		{"the number of fields", `size(changes) == 1 && changes.size() == 1 && size(detection) > 2`},
		{"the fields of a detection without types", `dyn(detection).exists(n, n == "x")`},
		{"properties", `detection.properties.certificate == "x" && detection.properties["odd name"] == 1 && detection.properties.exists(n, n == "x")`},
		{"techniques as objects and as texts", `detection.mitre_techniques.exists(t, t.id == "T1095") || "T1095" in detection.mitre_techniques`},
		{"changes", `changes.status.to == "closed" && changes.participants.to > changes.participants.from && has(changes.assignee)`},
		{"any field of the body of an audit log entry", `audit.body.operation == "Login" && audit.body.anything > 1`},
		{"any field of a record", `record._source.statusCode >= 400 && record.found_by == "x" && record._type == "~http"`},
		{"a loop's variable with the name of one of the event", `detection.participants.exists(detection, detection.role == "victim")`},
		{"scores at the ends of their range", `detection.risk_score >= 0 && detection.risk_score <= 100 && 100 >= detection.risk_score && detection.risk_score in [0, 100]`},
		{"a status that some appliances return", `detection.status in ["open", "new", null]`},
		{"values that vary with the appliance", `detection.type == "x" && "sec.new" in detection.categories && detection.ai_disposition != "y" && detection.participants.exists(p, p.role == "z" && p.object_type == "z")`},
		{"any value of a field that is named by an index", `detection["status"] == "escalated" && changes["status"].to == "x"`},
		{"the fields of a loop's variable with the name of one of the event", `detection.participants.exists(event, event.role == "x" && event["type"] == "y")`},
		{"other objects with fields of the same names", `record._source.status == "x" && record.stream == "y" && audit.body.resolution == "z"`},
		{"lists and objects", `detection.categories == ["sec"] && detection.participants == [] && detection.properties.client == {"type": "ipaddr"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Compile(test.expression); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestVocabulariesAreThoseOfTheInterface compares the values of detections with the
// description of the appliance's interface.
func TestVocabulariesAreThoseOfTheInterface(t *testing.T) {
	text := require.Value(os.ReadFile("../../test/appliance/openapi/detections.yaml"))(t)
	var document struct {
		Components struct {
			Schemas map[string]struct{ Enum []*string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &document))
	for field, want := range map[string][]string{"Status": transform.Statuses(), "Resolution": transform.Resolutions()} {
		var listed []string
		for _, value := range document.Components.Schemas["Detection"+field].Enum {
			if value != nil {
				listed = append(listed, *value)
			}
		}
		assert.EqualSlices(t, listed, want, field)
	}
}

// TestKindsAreThoseOfTheInterface compares the types with the description of the
// appliance's interface.
func TestKindsAreThoseOfTheInterface(t *testing.T) {
	for _, test := range []struct {
		kind         documented
		file, schema string
	}{
		{detectionKind, "detections.yaml", "Detection"},
		{participantKind, "detections.yaml", "DetectionParticipant"},
		{auditKind, "auditlog.yaml", "AuditEntry"},
	} {
		t.Run(test.kind.name, func(t *testing.T) {
			text := require.Value(os.ReadFile("../../test/appliance/openapi/" + test.file))(t)
			var document struct {
				Components struct {
					Schemas map[string]struct{ Properties map[string]property }
				}
			}
			require.NoError(t, yaml.Unmarshal(text, &document))
			want := make(map[string]string)
			for name, p := range document.Components.Schemas[test.schema].Properties {
				want[name] = p.kind()
			}
			got := make(map[string]string)
			for _, f := range test.kind.fields {
				got[f.name] = f.kind.String()
			}
			require.True(t, maps.Equal(got, want), "the kind has", got, "the interface", want)
		})
	}
}

// property is the schema of a field.
type property struct {
	Ref   string `yaml:"$ref"`
	Type  any
	Items struct {
		Ref  string `yaml:"$ref"`
		Type string
	}
}

// kind returns the type of CEL for a field.
func (p property) kind() string {
	var names []string
	switch of := p.Type.(type) {
	case nil: // Id and Time are integers
		return "int"
	case string:
		names = []string{of}
	case []any:
		for _, name := range of {
			if name != "null" {
				names = append(names, name.(string))
			}
		}
	}
	switch {
	case len(names) > 1:
		return "dyn"
	case names[0] == "object":
		return "map(string, dyn)"
	case names[0] == "array" && strings.HasSuffix(p.Items.Ref, "/DetectionParticipant"):
		return "list(Participant)"
	case names[0] == "array" && p.Items.Ref != "":
		return "list(dyn)"
	case names[0] == "array":
		return "list(" + p.Items.Type + ")"
	}
	return map[string]string{"string": "string", "integer": "int", "boolean": "bool"}[names[0]]
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
