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
	json    []byte      // from the brace on
	kind    *types.Type // nil: not documented
	isData  bool        // it is the data of an event: its members are the variables
	members []member
	indexed bool
	last    map[string]int // index of the last member of each name; nil for few members
	decoded traits.Mapper  // nil until the whole object is used
}

type member struct {
	jsonscan.Member
	value ref.Val // nil until selected
}

// index finds the object's members, and returns the index after the object, or -1 if it
// is malformed. With nested, it does the same for the objects in it, in the same pass.
func (o *object) index(nested bool) int {
	o.indexed = true
	i, more := jsonscan.First(o.json, 1, '}')
	for more {
		m := member{Member: jsonscan.ReadName(o.json, i)}
		switch {
		case m.Value < 0 || m.Value == len(o.json):
			return -1
		case nested && o.json[m.Value] == '{':
			below := &object{json: o.json[m.Value:], kind: o.memberKind(m.Member), members: make([]member, 0, 28)}
			if end := below.index(false); end >= 0 {
				below.json = below.json[:end]
				m.End = m.Value + end
			}
			m.value = below
		default:
			m.End = jsonscan.Value(o.json, m.Value, jsonscan.MaxDepth)
		}
		if m.End < 0 {
			return -1
		}
		o.members = append(o.members, m)
		i, more = jsonscan.Next(o.json, m.End, '}')
	}
	return i
}

// find returns the value of a member, or nil if there is none. If a name occurs twice the
// last member counts, as for the event's consumers.
func (o *object) find(name string) ref.Val {
	if !o.indexed {
		o.index(false)
	}
	if len(o.members) > maxSearched {
		return o.findInMap(name)
	}
	for i, m := range slices.Backward(o.members) {
		written := o.json[m.Name:m.NameEnd]
		if string(written) == name || bytes.IndexByte(written, '\\') >= 0 && stringText(o.json[m.Name-1:m.NameEnd+1]) == name {
			return o.value(i)
		}
	}
	return nil
}

// maxSearched is how many members find searches one after the other, which is fastest for
// few. In larger objects the time of each step of a loop would grow with the object.
const maxSearched = 64

// findInMap is find for objects with many members.
func (o *object) findInMap(name string) ref.Val {
	if o.last == nil {
		o.last = make(map[string]int, len(o.members))
		for i, m := range o.members {
			o.last[stringText(o.json[m.Name-1:m.NameEnd+1])] = i
		}
	}
	if i, found := o.last[name]; found {
		return o.value(i)
	}
	return nil
}

// value returns the value of the member with index i.
func (o *object) value(i int) ref.Val {
	m := &o.members[i]
	if m.value == nil {
		if json := o.json[m.Value:m.End]; json[0] == '{' {
			m.value = &object{json: json, kind: o.memberKind(m.Member)}
		} else {
			m.value = decode(json, o.memberKind(m.Member))
		}
	}
	return m.value
}

// memberKind returns the documented type of a member if its value depends on it, else nil.
func (o *object) memberKind(m jsonscan.Member) *types.Type {
	switch o.json[m.Value] {
	case '{', '[':
	case '"':
		if jsonscan.Number(o.json[m.Value:m.End]) == nil {
			return nil
		}
	default:
		return nil
	}
	if o.isData {
		return dataTypes[string(o.json[m.Name:m.NameEnd])]
	}
	return memberKind(o.kind, o.json[m.Name:m.NameEnd])
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
	value, _ := decodeAt(data, 0, kind)
	return value
}

// decodeAt decodes the value at data[i], and returns the index after it.
func decodeAt(data []byte, i int, kind *types.Type) (ref.Val, int) {
	switch data[i] {
	case '{':
		members := make(map[string]any)
		i, more := jsonscan.First(data, i+1, '}')
		for more {
			m := jsonscan.ReadName(data, i)
			value, end := decodeAt(data, m.Value, memberKind(kind, data[m.Name:m.NameEnd]))
			members[stringText(data[m.Name-1:m.NameEnd+1])] = value
			i, more = jsonscan.Next(data, end, '}')
		}
		return types.NewStringInterfaceMap(types.DefaultTypeAdapter, members), i
	case '[':
		var elements []ref.Val
		i, more := jsonscan.First(data, i+1, ']')
		for more {
			var element ref.Val
			element, i = decodeAt(data, i, elementKind(kind))
			elements = append(elements, element)
			i, more = jsonscan.Next(data, i, ']')
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elements), i
	}
	end := jsonscan.Value(data, i, 0)
	switch data[i] {
	case '"':
		if kind == types.IntType {
			if literal := jsonscan.Number(data[i:end]); literal != nil {
				return number(literal), end
			}
		}
		return types.String(stringText(data[i:end])), end
	case 't':
		return types.True, end
	case 'f':
		return types.False, end
	case 'n':
		return types.NullValue, end
	}
	return number(data[i:end]), end
}

// stringText returns the text of a JSON string. Invalid Unicode is replaced.
func stringText(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // the error reports what was replaced
	return string(text)
}

// number converts a JSON number.
func number(literal []byte) ref.Val {
	if !bytes.ContainsAny(literal, ".eE") {
		if n, err := strconv.ParseInt(string(literal), 10, 64); err == nil {
			return types.Int(n)
		}
		if n, err := strconv.ParseUint(string(literal), 10, 64); err == nil {
			return types.Uint(n)
		}
	}
	// A number out of range becomes an infinity, which compares correctly.
	n, _ := strconv.ParseFloat(string(literal), 64)
	return types.Double(n)
}
