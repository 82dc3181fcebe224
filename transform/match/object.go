package match

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"ndrbridge/internal/jsonscan"
)

// object is a CEL map that decodes a JSON object's members when they are selected, each
// once. Any other use decodes the whole object. It implements traits.Mapper.
type object struct {
	json    []byte // from the brace on
	members []jsonscan.Member
	indexed bool
	last    map[string]int // index of the last member of each name; nil for few members
	values  []ref.Val      // of members; nil until selected
	decoded traits.Mapper  // nil until the whole object is used
}

// index finds the object's members, and returns the index after the object, or -1 if it
// is malformed.
func (o *object) index() int {
	o.indexed = true
	i, more := jsonscan.First(o.json, 1, '}')
	for more {
		m := jsonscan.ReadMember(o.json, i, jsonscan.MaxDepth)
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
		o.index()
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
	if o.values == nil {
		o.values = make([]ref.Val, len(o.members))
	}
	if o.values[i] == nil {
		if json := o.json[o.members[i].Value:o.members[i].End]; json[0] == '{' {
			o.values[i] = &object{json: json}
		} else {
			o.values[i] = decode(json)
		}
	}
	return o.values[i]
}

func (o *object) whole() traits.Mapper {
	if o.decoded == nil {
		o.decoded = decode(o.json).(traits.Mapper)
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
