package admin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// checkQuery refuses a query with a parameter that is not one of known, so that a mistyped
// one, or one of a newer version, is not ignored.
func checkQuery(raw string, known []string) *problem {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return newProblem(http.StatusBadRequest, "the query is malformed: "+err.Error())
	}
	for name, values := range query {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return newProblem(http.StatusBadRequest, fmt.Sprintf("there is no parameter %.80q: this operation has none", name))
		case !slices.Contains(known, name):
			p := newProblem(http.StatusBadRequest, fmt.Sprintf("there is no parameter %.80q: this operation has %s", name, strings.Join(known, ", ")))
			p.Allowed = known
			return p
		case len(values) > 1:
			p := newProblem(http.StatusBadRequest, name+" is given more than once")
			p.Field = name
			return p
		}
	}
	return nil
}

// timeAdvice ends errors about a missing or invalid time.
const timeAdvice = "write a time such as 2026-01-31T08:00:00Z"

// maxRequest is the maximum size of a request's body, in bytes.
const maxRequest = 1 << 20

// readRequest reads a request: its parameters, and its body if it has one.
func readRequest[T any](w http.ResponseWriter, r *http.Request) (request T, err error) {
	err = readParameters(r, reflect.ValueOf(&request).Elem())
	if err == nil && requestOf(reflect.TypeFor[T]()).body {
		err = decodeBody(w, r, &request)
	}
	return request, err
}

// decodeBody decodes the JSON body. Unlike encoding/json, it distinguishes capitals in names.
func decodeBody(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := readBody(w, r, maxRequest)
	if p, ok := errors.AsType[*problem](err); ok && p.Status == http.StatusRequestEntityTooLarge {
		p.Detail += ": ask for less at once"
	}
	if err != nil {
		return err
	}
	if err := checkJSON(body); err != nil {
		return newProblem(http.StatusBadRequest, notExpected+err.Error())
	}
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		return decodingProblem(err)
	}
	return nil
}

// notExpected begins the details of problems with a body.
const notExpected = "the body is not the expected JSON: "

// checkJSON refuses what decoding would ignore, a null, and a name that is given twice.
// Other errors of syntax are left to the decoding.
func checkJSON(body []byte) error {
	for d := jsontext.NewDecoder(bytes.NewReader(body)); ; {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return fmt.Errorf("%.80s is given twice", d.StackPointer())
		case err != nil:
			return nil
		case token.Kind() == 'n':
			return fmt.Errorf("%.80s is null: leave it out, or write a value", cmp.Or(string(d.StackPointer()), "it"))
		}
	}
}

// decodingProblem returns the problem for an error of decoding, in terms of JSON.
func decodingProblem(err error) *problem {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return newProblem(http.StatusBadRequest, notExpected+strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	where := cmp.Or(string(semantic.JSONPointer), "it")
	p := newProblem(http.StatusBadRequest, fmt.Sprintf("%s%.80s must be %s", notExpected, where, jsonType(semantic.GoType)))
	if errors.Is(err, json.ErrUnknownName) {
		p.Detail = fmt.Sprintf("%sthere is no field %.80s", notExpected, where)
	}
	if field, _, nested := strings.Cut(strings.TrimPrefix(where, "/"), "/"); !nested && len(field) <= 80 && where != "it" {
		p.Field = field
	}
	return p
}

// jsonType describes the JSON that a type of a request's field requires.
func jsonType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "a time such as 2026-01-31T08:00:00Z"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

// refuseBody refuses a request with a body, for an operation that has none: what the caller
// asks for in it would be ignored.
func refuseBody(r *http.Request) *problem {
	if r.ContentLength < 0 { // unknown until it is read
		if n, _ := r.Body.Read(make([]byte, 1)); n == 0 {
			return nil
		}
	}
	return refusal(http.StatusBadRequest, "this operation takes no body")
}

// readBody reads a body of at most limit bytes, which must not be empty.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := readAll(w, r, limit)
	if err == nil && len(bytes.TrimSpace(body)) == 0 {
		return nil, newProblem(http.StatusBadRequest, "the body is missing: send JSON")
	}
	return body, err
}

// readAll reads a body of at most limit bytes.
func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, errBodies):
		return nil, busy(err.Error())
	case errors.As(err, &tooLarge):
		return nil, newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
	case err != nil:
		return nil, newProblem(http.StatusBadRequest, "the body broke off")
	}
	return body, nil
}

// maxPage is the maximum number of dead letters or commands on a page.
const maxPage = 1000

// checkLimit refuses a page of another number of items.
func checkLimit(limit int) error {
	if limit < 1 || limit > maxPage {
		return newProblem(http.StatusBadRequest, fmt.Sprintf("limit must be a number from 1 to %d", maxPage))
	}
	return nil
}
