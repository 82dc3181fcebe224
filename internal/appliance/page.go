package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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
	decoder    jsontext.Decoder

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
	p.start(body)
	if err := p.array(body, "the answer", !utf8.Valid(body)); err != nil {
		return err
	}
	return p.end()
}

// array appends the objects of the array at the decoder's position.
func (p *Page) array(body []byte, what string, repair bool) error {
	if kind, err := p.peek(body); err != nil {
		return err
	} else if kind != jsontext.KindBeginArray {
		return p.wrong(body, what, kind, "an array of objects")
	}
	if _, err := p.decoder.ReadToken(); err != nil {
		return syntax(body, err)
	}
	for {
		kind, err := p.peek(body)
		switch {
		case err != nil:
			return err
		case kind == jsontext.KindEndArray:
			if _, err := p.decoder.ReadToken(); err != nil {
				return syntax(body, err)
			}
			return nil
		case kind != jsontext.KindBeginObject:
			return p.wrong(body, fmt.Sprintf("element %d of %s", len(p.Objects), what), kind, "an object")
		}
		if err := p.full(); err != nil {
			return err
		}
		if err := p.object(body, repair); err != nil {
			return err
		}
	}
}

// decodeObject decodes body as one object.
func (p *Page) decodeObject(body []byte) error {
	p.start(body)
	if kind, err := p.peek(body); err != nil {
		return err
	} else if kind != jsontext.KindBeginObject {
		return p.wrong(body, "the answer", kind, "an object")
	}
	if err := p.object(body, !utf8.Valid(body)); err != nil {
		return err
	}
	return p.end()
}

func (p *Page) start(body []byte) {
	p.clear()
	p.decoder.Reset(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// peek returns the kind of the next token. The end of the input is an error.
func (p *Page) peek(body []byte) (jsontext.Kind, error) {
	kind := p.decoder.PeekKind()
	if kind != jsontext.KindInvalid {
		return kind, nil
	}
	_, err := p.decoder.ReadToken()
	return kind, syntax(body, err)
}

// object appends the object at the decoder's position.
func (p *Page) object(body []byte, repair bool) error {
	value, err := p.decoder.ReadValue()
	if err != nil {
		return syntax(body, err)
	}
	// value is only valid until the next read, body longer.
	end := int(p.decoder.InputOffset())
	o := Object{Raw: body[end-len(value) : end : end]}
	if repair && !utf8.Valid(o.Raw) {
		o = Object{Raw: bytes.ToValidUTF8(o.Raw, []byte("\uFFFD")), Repaired: true}
	}
	p.Objects = append(p.Objects, o)
	return nil
}

func (p *Page) end() error {
	if _, err := p.decoder.ReadToken(); err != io.EOF {
		return fmt.Errorf("the answer has data after its JSON, at byte %d", p.decoder.InputOffset())
	}
	return nil
}

// wrong returns the error for a value of the wrong kind. The kind is derived from the
// first byte only, so the value may turn out to be invalid JSON.
func (p *Page) wrong(body []byte, what string, kind jsontext.Kind, want string) error {
	if err := p.decoder.SkipValue(); err != nil {
		return syntax(body, err)
	}
	return fmt.Errorf("%s is %s, but must be %s", what, describe(kind), want)
}

// syntax returns an error for an error of the decoder, whose own text would contain
// names from the answer.
func syntax(body []byte, err error) error {
	if err == io.EOF {
		return errors.New("the answer is empty, but must be JSON")
	}
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return err
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
