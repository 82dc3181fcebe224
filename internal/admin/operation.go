package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Operation is something that an operator can do with a bridge. Its request is a struct: a
// field with the tag param is a parameter of that name, in the path if that names it, else in
// the query; those with the tag json are the body, if there are any. A parameter that is
// absent has the value of the tag default, and one that cannot be parsed is refused with the
// text of the tag invalid, in which %q stands for it. A request whose method check returns an
// error, if it has one, is refused with it.
type Operation[Req, Answer any] struct{ *route }

// route is where the API has an operation.
type route struct {
	method string
	// paths are below version. Of several, a client takes the first whose parameters a request
	// has.
	paths []string
	// fallback is the status of errors that are none of the known ones.
	fallback int
	// local operations are those of a member of a cluster. The others are the owner's.
	local bool
	takes request
}

// request is what a request may contain.
type request struct {
	query []string // the names of its parameters, sorted
	any   bool     // it may have parameters with any names
	body  bool
}

// requestOf returns what requests of a type may contain.
func requestOf(t reflect.Type) (r request) {
	for _, f := range reflect.VisibleFields(t) {
		if name, ok := f.Tag.Lookup("param"); ok {
			r.query = append(r.query, name)
		} else {
			r.body = r.body || hasJSON(f)
		}
	}
	slices.Sort(r.query)
	return r
}

// queryOf returns the names of the parameters in the query of a request to a path: those that
// no path names. If the path names a sink, there is no stream of an appliance.
func (o *route) queryOf(path string) []string {
	return slices.DeleteFunc(slices.Clone(o.takes.query), func(name string) bool {
		isStream := name == "appliance" || name == "stream"
		return o.inPath(name) || isStream && strings.Contains(path, "{sink}")
	})
}

// inPath reports whether a path names a parameter.
func (o *route) inPath(name string) bool {
	return strings.Contains(strings.Join(o.paths, ""), "{"+name)
}

// define makes the operation from the tags of its field in apiOperations.
func (o *Operation[Req, Answer]) define(tag reflect.StructTag) {
	words := strings.Fields(tag.Get("http"))
	fallback, err := strconv.Atoi(tag.Get("fallback"))
	if err != nil {
		fallback = http.StatusInternalServerError
	}
	o.route = &route{words[0], words[1:], fallback, tag.Get("local") != "", requestOf(reflect.TypeFor[Req]())}
}

func (o Operation[Req, Answer]) at() *route { return o.route }

// None is an empty request, or an empty answer.
type None struct{}

// Operations are functions that carry out operations of one bridge. Fill them with By.
type Operations map[*route]any

// By has an operation carried out by a function.
func (o Operation[Req, Answer]) By(all Operations, do func(context.Context, Req) (Answer, error)) {
	all[o.route] = do
}

// Action is an operation without an answer.
type Action[Req any] struct{ Operation[Req, None] }

// By has an action carried out by a function.
func (a Action[Req]) By(all Operations, do func(context.Context, Req) error) {
	a.Operation.By(all, func(ctx context.Context, request Req) (None, error) { return None{}, do(ctx, request) })
}

// Do carries out the action on the bridge of c.
func (a Action[Req]) Do(ctx context.Context, c *Client, request Req) error {
	_, err := a.Call(ctx, c, request)
	return err
}

// Call carries out the operation on the bridge of c. Those whose answers are streams, TailEvents,
// Backup and Verify, are called by the methods of Client.
func (o Operation[Req, Answer]) Call(ctx context.Context, c *Client, request Req) (answer Answer, err error) {
	if checked, ok := any(request).(interface{ check() error }); ok {
		if err := checked.check(); err != nil {
			return answer, err
		}
	}
	if c.local == nil {
		a := o.call(request)
		if reflect.TypeFor[Answer]() == reflect.TypeFor[None]() {
			return answer, c.do(ctx, a)
		}
		return ask[Answer](ctx, c, a)
	}
	do, ok := c.local[o.route].(func(context.Context, Req) (Answer, error))
	if !ok {
		return answer, c.errMissing()
	}
	return do(ctx, request)
}

// answer carries out a request on the bridge of c.
func (o Operation[Req, Answer]) answer(c *Client, w http.ResponseWriter, r *http.Request) (any, error) {
	if c.local != nil && c.local[o.route] == nil {
		return nil, c.errMissing() // whatever the request is
	}
	request, err := readRequest[Req](w, r)
	if err != nil {
		return nil, err
	}
	answer, err := o.Call(r.Context(), c, request)
	if p, ok := any(answer).(partial); ok && err != nil && p.count() > 0 {
		err = fmt.Errorf("%d were %s, then: %w", p.count(), p.done(), err)
	}
	if err != nil {
		return nil, problemOf(err, o.fallback)
	}
	if a, ok := any(&answer).(interface{ fillLists() }); ok {
		a.fillLists()
	}
	return answer, nil
}

// partial is an answer that may come with an error.
type partial interface {
	count() int // of what was done before the error
	done() string
}

// call returns the request of a client.
func (o *route) call(request any) call {
	of := reflect.ValueOf(request)
	a := call{method: o.method, query: url.Values{}}
	for _, f := range reflect.VisibleFields(of.Type()) {
		value := of.FieldByIndex(f.Index)
		name, isParameter := f.Tag.Lookup("param")
		switch {
		case isParameter:
			// In a path, 0 is a value like any other.
			if text := formatParameter(value); text != "" && (o.inPath(name) || !value.IsZero()) {
				a.query.Set(name, text)
			}
		case hasJSON(f):
			a.body = request
		}
	}
	for _, path := range o.paths {
		a.path = nil
		used, whole := []string(nil), true
		for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			if name, ok := strings.CutPrefix(segment, "{"); ok {
				name = strings.TrimRight(name, ".}")
				used, whole = append(used, name), whole && a.query.Has(name)
				segment = a.query.Get(name)
			}
			a.path = append(a.path, segment)
		}
		if whole || path == o.paths[len(o.paths)-1] {
			for _, name := range used {
				a.query.Del(name)
			}
			break
		}
	}
	return a
}

// hasJSON reports whether a field is in the body.
func hasJSON(f reflect.StructField) bool {
	name, ok := f.Tag.Lookup("json")
	return ok && name != "-"
}

func formatParameter(value reflect.Value) string {
	if t, ok := value.Interface().(time.Time); ok {
		return t.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(value.Interface())
}

// readParameters sets the fields of a request that are parameters.
func readParameters(r *http.Request, request reflect.Value) error {
	query := r.URL.Query()
	for _, f := range reflect.VisibleFields(request.Type()) {
		name, ok := f.Tag.Lookup("param")
		if !ok {
			continue
		}
		text := cmp.Or(r.PathValue(name), query.Get(name), f.Tag.Get("default"))
		if text == "" || parseParameter(request.FieldByIndex(f.Index), text) == nil {
			continue
		}
		status := http.StatusBadRequest
		if f.Tag.Get("status") == "404" {
			status = http.StatusNotFound
		}
		return newProblem(status, strings.ReplaceAll(f.Tag.Get("invalid"), "%q", fmt.Sprintf("%.80q", text)))
	}
	return nil
}

func parseParameter(value reflect.Value, text string) error {
	switch kind := value.Kind(); kind {
	case reflect.String:
		value.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		value.SetBool(b)
		return err
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		value.SetUint(n)
		return err
	case reflect.Struct:
		t, err := time.Parse(time.RFC3339, text)
		value.Set(reflect.ValueOf(t))
		return err
	default:
		n, err := strconv.ParseUint(text, 10, 63)
		value.SetInt(int64(n))
		return err
	}
	return nil
}
