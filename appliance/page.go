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

// Page is what an answer held. The caller owns it and can use it for one call
// after the other, which saves memory; what it holds is valid until then, or until
// Release. After an error it holds nothing. The zero Page is ready for use.
type Page struct {
	// Objects are in the order of the answer.
	Objects []Object
	// Date is the appliance's time when it answered, in whole seconds: what the answer's
	// Date header says, or, if that contradicts those of the answers before it, what
	// these lead to expect. It is never that of a single answer.
	Date time.Time

	body    []byte
	most    int     // how many Objects it may have; 0: maxRows
	fields  []field // of all Objects
	decoder jsontext.Decoder

	asked bool  // an answer came, of
	last  int64 // bytes

	bound    bool    // see Bind
	reserved bool    // the lease is for the next answer
	budget   *Budget // nil: the page counts against none
	owner    *link
	lease    lease
}

// Object is one JSON object of an answer.
type Object struct {
	// Raw is the object as it came, but that bytes which are not UTF-8 are
	// replaced by U+FFFD: valid JSON in valid UTF-8. Escapes are kept, even of
	// half a surrogate pair; a name can occur twice.
	Raw []byte
	// Repaired says that there were such bytes.
	Repaired bool

	fields []field // see Fields
}

// maxRows bounds the objects of an answer to a request without a limit of its own: the
// highest limit that the interface allows.
const maxRows = 20_000

// Size returns how many bytes the last answer's body had, decompressed.
func (p *Page) Size() int64 { return p.last }

// full returns an error if the page has as many objects as were asked for. It is called
// before another one is appended: what is kept per object is small, and many times the
// size of the two bytes of an empty object.
func (p *Page) full() error {
	most := p.most
	if most <= 0 {
		most = maxRows
	}
	if len(p.Objects) < most {
		return nil
	}
	return fmt.Errorf("the answer has more than the %d objects that were asked for: does something between ignore limit?", most)
}

// clear empties the page and keeps its memory.
func (p *Page) clear() {
	clear(p.Objects)
	p.Objects = p.Objects[:0]
	p.fields = p.fields[:0]
	p.Date = time.Time{}
}

// decodeArray takes body for an array of objects with nothing behind it.
func (p *Page) decodeArray(body []byte) error {
	p.start(body)
	valid := utf8.Valid(body)
	if valid {
		if whole, err := p.scanArray(body); err != nil || whole {
			return err
		}
	}
	p.Objects = p.Objects[:0] // of what the scanner gave up
	if err := p.array(body, "the answer", !valid); err != nil {
		return err
	}
	return p.end()
}

// array appends the objects of the array that comes next.
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

// decodeObject takes body for one object with nothing behind it.
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

// peek returns the kind of what comes next. It is an error that nothing does.
func (p *Page) peek(body []byte) (jsontext.Kind, error) {
	kind := p.decoder.PeekKind()
	if kind != jsontext.KindInvalid {
		return kind, nil
	}
	_, err := p.decoder.ReadToken()
	return kind, syntax(body, err)
}

// object appends the object that comes next.
func (p *Page) object(body []byte, repair bool) error {
	value, err := p.decoder.ReadValue()
	if err != nil {
		return syntax(body, err)
	}
	// value must not outlive the next read, body does.
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
		return fmt.Errorf("something stands behind the JSON of the answer, after byte %d", p.decoder.InputOffset())
	}
	return nil
}

// wrong tells that what comes next is not what is due. Its kind was told by its
// first byte alone, so it may be no JSON at all.
func (p *Page) wrong(body []byte, what string, kind jsontext.Kind, due string) error {
	if err := p.decoder.SkipValue(); err != nil {
		return syntax(body, err)
	}
	return fmt.Errorf("%s is %s, where %s is due", what, describe(kind), due)
}

// syntax words an error of the decoder. The decoder's own text would hold names
// out of the answer.
func syntax(body []byte, err error) error {
	if err == io.EOF {
		return errors.New("the answer is empty, where JSON is due")
	}
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the answer ends in the middle of its JSON, after %d bytes: %w", len(body), e.Err)
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
