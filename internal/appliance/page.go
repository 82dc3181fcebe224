package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
)

// Page holds the content of an answer. The caller owns it and can reuse it for further
// calls, which saves memory; its content is valid until the next call or Release. After
// an error it is empty. The zero Page is ready for use.
type Page struct {
	// Objects are in the order of the answer.
	Objects []Object
	// Date is the appliance's time when it answered, in whole seconds: the answer's
	// Date header, or, if that contradicts those of earlier answers, the time by the
	// offset of these. It never depends on a single answer.
	Date time.Time

	body       []byte
	maxObjects int // 0 means maxRows

	answered bool  // an answer was received
	last     int64 // its size in bytes

	bound bool // see Bind
	loan  loan
}

// Object is a JSON object of an answer.
type Object struct {
	// Raw is the object as received, except that bytes that are not UTF-8 are replaced
	// by U+FFFD: valid JSON in valid UTF-8. Escapes are kept, even of an unpaired
	// surrogate; a name may occur twice.
	Raw []byte
	// Repaired means that there were such bytes.
	Repaired bool
}

// maxRows limits the objects of an answer to a request without a limit: the highest
// limit that the interface allows.
const maxRows = 20_000

// Size returns the size of the last answer's body in bytes, decompressed.
func (p *Page) Size() int64 { return p.last }

// most returns how many objects the page may have.
func (p *Page) most() int {
	if p.maxObjects <= 0 {
		return maxRows
	}
	return p.maxObjects
}

// full returns an error if the page has as many objects as requested. It is called
// before another object is appended: an Object is small, but many times the size of the
// two bytes of an empty object.
func (p *Page) full() error {
	if most := p.most(); len(p.Objects) >= most {
		return fmt.Errorf("the answer has more than the %d objects requested: check whether a proxy removes the parameter limit", most)
	}
	return nil
}

// clear empties the page and keeps its memory.
func (p *Page) clear() {
	clear(p.Objects)
	p.Objects = p.Objects[:0]
	p.Date = time.Time{}
}

// decodeArray decodes body as an array of objects.
func (p *Page) decodeArray(body []byte) error {
	p.clear()
	end, err := p.array(body, "the answer", !utf8.Valid(body))
	return complete(body, end, err)
}

// array appends the objects of the array at the beginning of text, and returns the index after
// it.
func (p *Page) array(text []byte, what string, repair bool) (end int, err error) {
	if err := expect(text, '[', what, "an array of objects"); err != nil {
		return 0, err
	}
	return jsonscan.Array(text, func(element []byte) error {
		if element[0] != '{' {
			return expect(element, '{', fmt.Sprintf("element %d of %s", len(p.Objects), what), "an object")
		}
		if err := p.full(); err != nil {
			return err
		}
		p.append(element, repair)
		return nil
	})
}

// decodeObject decodes body as one object.
func (p *Page) decodeObject(body []byte) error {
	p.clear()
	if err := expect(body, '{', "the answer", "an object"); err != nil {
		return complete(body, 0, err)
	}
	object := bytes.TrimLeft(body, jsonSpace)
	size, err := jsonscan.Size(object)
	if err == nil {
		p.append(object[:size:size], !utf8.Valid(body))
	}
	return complete(body, len(body)-len(object)+size, err)
}

// append appends an object.
func (p *Page) append(raw []byte, repair bool) {
	o := Object{Raw: raw}
	if repair && !utf8.Valid(raw) {
		o = Object{Raw: bytes.ToValidUTF8(raw, []byte("\uFFFD")), Repaired: true}
	}
	p.Objects = append(p.Objects, o)
}

const jsonSpace = " \t\r\n"

// expect returns an error if the value at the beginning of text is not of the kind that begins
// with a byte.
func expect(text []byte, first jsontext.Kind, what, want string) error {
	text = bytes.TrimLeft(text, jsonSpace)
	if len(text) > 0 && text[0] == byte(first) {
		return nil
	}
	size, err := jsonscan.Size(text)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s is %s, but must be %s", what, describe(jsontext.Value(text[:size]).Kind()), want)
}

// complete returns the error of decoding body up to its byte end: err, with the reason if that is
// jsonscan.ErrSyntax; without err one for data after the JSON.
func complete(body []byte, end int, err error) error {
	rest := bytes.TrimLeft(body[end:], jsonSpace)
	switch {
	case errors.Is(err, jsonscan.ErrSyntax):
		return syntax(body)
	case err == nil && len(rest) > 0:
		return fmt.Errorf("the answer has data after its JSON, at byte %d", len(body)-len(rest))
	}
	return err
}

// syntax returns an error for a body that does not begin with valid JSON.
func syntax(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := d.SkipValue()
	if err == io.EOF {
		return errors.New("the answer is empty, but must be JSON")
	}
	// The text of the decoder's error would contain names from the answer.
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return jsonscan.ErrSyntax
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the answer's JSON is incomplete, it ends after %d bytes: %w", len(body), e.Err)
	}
	return fmt.Errorf("the answer is not JSON at byte %d: %w", e.ByteOffset, e.Err)
}

func describe(kind jsontext.Kind) string {
	switch kind {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginArray:
		return "an array"
	}
	return "an object"
}
