package match

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"ndrbridge/internal/jsonscan"
)

// object is a CEL map that decodes a JSON object's members when they are selected, each
// once. Any other use decodes the whole object. It implements traits.Mapper.
type object struct {
	json    []byte
	kind    *types.Type    // nil: not documented
	isData  bool           // it is the data of an event: its members are the variables
	members []member       // nil until one is selected
	last    map[string]int // index of the last member of each name; nil for few members
	decoded traits.Mapper  // nil until the whole object is used
}

type member struct {
	name, json []byte
	value      ref.Val // nil until selected
}

// find returns the value of a member, or nil if there is none. If a name occurs twice the
// last member counts, as for the event's consumers.
func (o *object) find(name string) ref.Val {
	switch {
	case o.members != nil:
	case o.isData:
		o.readData()
	default:
		o.members = make([]member, 0, usualMembers)
		for name, value := range jsonscan.Members(o.json) {
			o.members = append(o.members, member{name: nameText(name), json: value})
		}
	}
	if len(o.members) > maxSearched && o.last == nil {
		o.last = make(map[string]int, len(o.members))
		for i, m := range o.members {
			o.last[string(m.name)] = i
		}
	}
	i, found := o.last[name]
	if o.last == nil {
		i = len(o.members) - 1
		for i >= 0 && string(o.members[i].name) != name {
			i--
		}
		found = i >= 0
	}
	if !found {
		return nil
	}
	m := &o.members[i]
	if m.value == nil {
		if kind := memberKind(o.kind, name); m.json[0] == '{' {
			m.value = &object{json: m.json, kind: kind}
		} else {
			m.value = decode(m.json, kind)
		}
	}
	return m.value
}

// usualMembers is how many members a detection has at most, mostly.
const usualMembers = 32

// readData reads the members of an event's data and those of the objects there in one pass.
func (o *object) readData() {
	o.members = make([]member, 0, 2)
	below := make([]member, 0, usualMembers)
	jsonscan.Nested(o.json, func(name, value []byte) {
		below = append(below, member{name: nameText(name), json: value})
	}, func(name, value []byte) {
		m := member{name: nameText(name), json: value}
		if value[0] == '{' {
			m.value = &object{json: value, kind: dataTypes[string(m.name)], members: below}
			below = nil
		}
		o.members = append(o.members, m)
	})
}

func (o *object) whole() traits.Mapper {
	if o.decoded == nil {
		o.decoded = decode(o.json, o.kind).(traits.Mapper)
	}
	return o.decoded
}

func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return o.whole().Find(key)
	}
	value := o.find(string(name))
	return value, value != nil
}

func (o *object) Contains(key ref.Val) ref.Val {
	_, found := o.Find(key)
	return types.Bool(found)
}

func (o *object) Get(key ref.Val) ref.Val                     { return o.whole().Get(key) }
func (o *object) Size() ref.Val                               { return o.whole().Size() }
func (o *object) Iterator() traits.Iterator                   { return o.whole().Iterator() }
func (o *object) Equal(other ref.Val) ref.Val                 { return o.whole().Equal(other) }
func (o *object) ConvertToType(t ref.Type) ref.Val            { return o.whole().ConvertToType(t) }
func (o *object) ConvertToNative(t reflect.Type) (any, error) { return o.whole().ConvertToNative(t) }
func (o *object) Type() ref.Type                              { return types.MapType }
func (o *object) Value() any                                  { return o.whole().Value() }

// decode converts a valid JSON value to a CEL value that does not reference it: a 64-bit
// integer to an int or uint, any other number to a double. kind is its documented type, nil
// if there is none: a text of a number is a number if that is documented.
func decode(data []byte, kind *types.Type) ref.Val {
	return decodeNext(jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), kind)
}

// decodeNext decodes the next value of d.
func decodeNext(d *jsontext.Decoder, kind *types.Type) ref.Val {
	token, err := d.ReadToken()
	if err != nil {
		return absent // not valid JSON
	}
	switch token.Kind() {
	case '{':
		members := make(map[string]any)
		for d.PeekKind() == '"' {
			name, err := d.ReadToken()
			if err != nil {
				return absent
			}
			text := name.String()
			value := decodeNext(d, memberKind(kind, text))
			if value == absent {
				return absent
			}
			members[text] = value
		}
		d.ReadToken() // the brace
		return types.NewStringInterfaceMap(types.DefaultTypeAdapter, members)
	case '[':
		var elements []ref.Val
		for k := d.PeekKind(); k != ']' && k != 0; k = d.PeekKind() {
			element := decodeNext(d, elementKind(kind))
			if element == absent {
				return absent
			}
			elements = append(elements, element)
		}
		d.ReadToken() // the bracket
		return types.NewRefValList(types.DefaultTypeAdapter, elements)
	case '"':
		text := token.String()
		if literal := jsonscan.Number([]byte(text)); kind == types.IntType && literal != nil {
			return number(text)
		}
		return types.String(text)
	case 't', 'f':
		return types.Bool(token.Kind() == 't')
	case 'n':
		return types.NullValue
	}
	return number(token.String())
}

// maxSearched is how many members find searches one after the other, which is fastest for
// few. In larger objects the time of each step of a loop would grow with the object.
const maxSearched = 64

// nameText returns the text of a name as written between its quotes.
func nameText(name []byte) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	text, _ := jsontext.AppendUnquote(nil, slices.Concat([]byte{'"'}, name, []byte{'"'})) // the error reports what was replaced
	return text
}

// number converts a JSON number.
func number(literal string) ref.Val {
	if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return types.Int(n)
	}
	if n, err := strconv.ParseUint(literal, 10, 64); err == nil {
		return types.Uint(n)
	}
	// A number out of range becomes an infinity, which compares correctly.
	n, _ := strconv.ParseFloat(literal, 64)
	return types.Double(n)
}
