package match

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"

	"ndrbridge/internal/similar"
	"ndrbridge/transform"
)

// vocabulary is the values that a field can have: texts, or numbers in ascending order. One
// without either has any values but those of earlier versions.
type vocabulary struct {
	texts   []string
	numbers []float64
	meant   map[string]string // other words for texts, in lower case
}

// vocabularies are the fields whose values are known. Those of other fields vary with the
// appliance, such as its categories and types of detections. A field of changes has the values
// of the detection's.
var vocabularies = map[string]vocabulary{
	"event.source": {},
	"event.stream": {texts: []string{transform.StreamDetections, transform.StreamAudit, transform.StreamRecords, transform.StreamEvents},
		meant: map[string]string{"auditlog": transform.StreamAudit}},
	"event.type":           {texts: transform.Types()},
	"event.action":         {texts: actions()},
	"event.severitytext":   {texts: transform.SeverityTexts(), meant: severityWords},
	"event.severitynumber": {numbers: floats(transform.SeverityNumbers())},
	"event.causedby":       {texts: []string{transform.CausedByWriteback}},
	"detection.status":     {texts: append(transform.Statuses(), transform.StatusOpen), meant: map[string]string{"resolved": "closed"}},
	"detection.resolution": {texts: transform.Resolutions()},
	"visibility.state":     {texts: []string{"hidden", "gone", "shown"}},
	"blindspot.kind":       {texts: []string{transform.BlindInterval, transform.BlindAlert, transform.BlindIngest, transform.BlindTracking}},
	"detection.risk_score": {numbers: riskScores()},
}

// severityWords are words of OpenTelemetry and others for severities.
var severityWords = map[string]string{"fatal": "critical", "error": "high", "warn": "medium", "warning": "medium", "info": "low"}

func actions() (actions []string) {
	for _, kind := range transform.Types() {
		actions = append(actions, kind[strings.LastIndexByte(kind, '.')+1:])
	}
	slices.Sort(actions)
	return slices.Compact(actions)
}

func floats(numbers []int32) (floats []float64) {
	for _, n := range numbers {
		floats = append(floats, float64(n))
	}
	return floats
}

func riskScores() (scores []float64) {
	for score := range 101 {
		scores = append(scores, float64(score))
	}
	return scores
}

// String lists the values for people.
func (v vocabulary) String() string {
	if len(v.numbers) > 10 {
		return fmt.Sprintf("%v to %v", v.numbers[0], v.numbers[len(v.numbers)-1])
	}
	var values []string
	for _, n := range v.numbers {
		values = append(values, fmt.Sprint(n))
	}
	return strings.Join(append(values, v.texts...), ", ")
}

// nearest returns the text that was most probably meant by another one, or "".
func (v vocabulary) nearest(text string) string {
	if meant := v.meant[strings.ToLower(text)]; meant != "" {
		return meant
	}
	for _, whole := range v.texts { // detection.created for a type or an action
		if strings.HasSuffix(whole, "."+text) || strings.HasSuffix(text, "."+whole) {
			return whole
		}
	}
	if near := similar.Nearest(text, v.texts); near != "" {
		return near
	}
	return similar.Nearest(transform.TypePrefix+text, v.texts)
}

// textComparisons are the functions of texts that are checked.
var textComparisons = map[string]func(field, constant string) bool{
	overloads.StartsWith: strings.HasPrefix, overloads.EndsWith: strings.HasSuffix, overloads.Contains: strings.Contains,
}

// comparisons are the operators that compare a field on their left with a constant number,
// and mirrored those with the field on their right.
var (
	comparisons = map[string]func(field, constant float64) bool{
		operators.Less:          func(a, b float64) bool { return a < b },
		operators.LessEquals:    func(a, b float64) bool { return a <= b },
		operators.Greater:       func(a, b float64) bool { return a > b },
		operators.GreaterEquals: func(a, b float64) bool { return a >= b },
	}
	mirrored = map[string]string{
		operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
		operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
	}
)

// problem returns what is wrong with the comparison of a field with a constant, or "".
// field is its selection.
func (v vocabulary) problem(field, operator string, constant any) string {
	var number float64
	switch value := constant.(type) {
	case string:
		return v.textProblem(field, operator, value)
	case int64:
		number = float64(value)
	case float64:
		number = value
	default:
		return ""
	}
	if v.numbers == nil {
		return ""
	}
	compare := comparisons[operator]
	if compare == nil {
		if slices.Contains(v.numbers, number) {
			return ""
		}
		return fmt.Sprintf("%s is never %v (values: %s%s)", field, number, v, appliancesOwn(field))
	}
	holds := 0
	for _, n := range v.numbers {
		if compare(n, number) {
			holds++
		}
	}
	word := "always"
	switch {
	case holds == 0:
		word = "never"
	case holds < len(v.numbers) || slices.Contains(v.numbers, number): // >= 0 asks whether there is a number
		return ""
	}
	symbol, _ := operators.FindReverse(operator)
	return fmt.Sprintf("%s is %s %s %v (values: %s%s)", field, word, symbol, number, v, appliancesOwn(field))
}

// textProblem is problem for a text.
func (v vocabulary) textProblem(field, operator, text string) string {
	compare, isFunction := textComparisons[operator]
	if !isFunction {
		compare = func(field, constant string) bool { return field == constant }
	}
	isPossible := func(text string) bool {
		return slices.ContainsFunc(v.texts, func(value string) bool { return compare(value, text) })
	}
	near := ""
	switch beginning, isOld := strings.CutSuffix(text, "/auditlog"); {
	case v.texts == nil && isOld: // a source of an earlier version
		near = beginning + "/audit"
	case v.texts == nil || isPossible(text):
		return ""
	case !isFunction:
		near = v.nearest(text)
	case isPossible(transform.TypePrefix + text):
		near = transform.TypePrefix + text
	}
	problem := fmt.Sprintf("%s is never %q", field, text)
	if isFunction {
		problem = fmt.Sprintf("%s.%s(%q) is never true", field, operator, text)
	}
	if near != "" {
		return fmt.Sprintf("%s; did you mean %q?", problem, near)
	}
	return fmt.Sprintf("%s (values: %s%s)", problem, v, appliancesOwn(field))
}

// appliancesOwn says how to compare a field of the appliance's with a value that is not
// documented.
func appliancesOwn(field string) string {
	variable, name, _ := strings.Cut(field, ".")
	if variable == eventVariable {
		return ""
	}
	name, member, found := strings.Cut(name, ".")
	if found {
		member = "." + member
	}
	return fmt.Sprintf("; write %s[%q]%s for one that only your appliance has", variable, name, member)
}

// checkValues returns an error if an expression compares a field with a constant that it
// cannot have. A field that is named by an index is not checked. parsed has not passed the type checker.
func checkValues(expression string, parsed *ast.AST) error {
	lines := strings.Split(expression, "\n")
	var errs []error
	check := func(operator string, selection, constant ast.Expr, locals []string) {
		field := selected(selection, locals)
		v, found := vocabularies[vocabularyName(field)]
		if !found || constant.Kind() != ast.LiteralKind {
			return
		}
		if problem := v.problem(field, operator, constant.AsLiteral().Value()); problem != "" {
			errs = append(errs, fmt.Errorf("%s: %s", position(lines, parsed.SourceInfo().GetStartLocation(constant.ID())), problem))
		}
	}
	walk(parsed.Expr(), nil, func(call ast.CallExpr, locals []string) {
		operator, args := call.FunctionName(), call.Args()
		switch operator {
		case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
			check(operator, args[0], args[1], locals)
			if other, found := mirrored[operator]; found {
				operator = other
			}
			check(operator, args[1], args[0], locals)
		case overloads.StartsWith, overloads.EndsWith, overloads.Contains:
			if call.IsMemberFunction() && len(args) == 1 {
				check(operator, call.Target(), args[0], locals)
			}
		case operators.In:
			if args[1].Kind() == ast.ListKind {
				for _, element := range args[1].AsList().Elements() {
					check(operator, args[0], element, locals)
				}
			}
		}
	})
	return errors.Join(errs...)
}

// vocabularyName returns the name in vocabularies of the selection of a field.
func vocabularyName(field string) string {
	if changed, found := strings.CutPrefix(field, changesVariable+"."); found {
		for _, end := range []string{".from", ".to"} {
			if name, found := strings.CutSuffix(changed, end); found {
				return "detection." + name
			}
		}
	}
	return field
}

// selected returns the selection of a field from a variable of the event, such as
// detection.status, or "" if e is none. locals are the variables of the enclosing loops.
func selected(e ast.Expr, locals []string) string {
	switch e.Kind() {
	case ast.IdentKind:
		if name := e.AsIdent(); !slices.Contains(locals, name) {
			return name
		}
	case ast.SelectKind:
		if operand := selected(e.AsSelect().Operand(), locals); operand != "" && !e.AsSelect().IsTestOnly() {
			return operand + "." + e.AsSelect().FieldName()
		}
	}
	return ""
}

// walk calls visit for the calls in an expression, with the variables of the loops around them.
func walk(e ast.Expr, locals []string, visit func(call ast.CallExpr, locals []string)) {
	each := func(locals []string, nodes ...ast.Expr) {
		for _, node := range nodes {
			walk(node, locals, visit)
		}
	}
	switch e.Kind() {
	case ast.SelectKind:
		each(locals, e.AsSelect().Operand())
	case ast.CallKind:
		visit(e.AsCall(), locals)
		if e.AsCall().IsMemberFunction() {
			each(locals, e.AsCall().Target())
		}
		each(locals, e.AsCall().Args()...)
	case ast.ListKind:
		each(locals, e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			each(locals, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		each(locals, c.IterRange(), c.AccuInit())
		each(append(slices.Clip(locals), c.IterVar(), c.IterVar2(), c.AccuVar()), c.LoopCondition(), c.LoopStep(), c.Result())
	}
}
