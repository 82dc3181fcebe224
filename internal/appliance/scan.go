package appliance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"ndrbridge/internal/jsonscan"
)

// maxScanned is the maximum nesting of an object's values that the scan supports. It
// leaves objects that are nested deeper, and JSON that is invalid, to the decoder.
const maxScanned = 64

// field holds the offsets of an object's member from the object's brace: its name
// without the quotes, and its value.
type field struct{ name, nameEnd, value, end uint32 }

// Fields yields the members of the object in order: the name as written between its
// quotes, and the bytes of the value. It returns nil if the members were not indexed
// when the answer was read: only objects in arrays are, unless they are unusual, were
// repaired, or have very many members.
func (o Object) Fields() iter.Seq2[[]byte, []byte] {
	if o.fields == nil {
		return nil
	}
	return func(yield func(name, value []byte) bool) {
		for _, f := range o.fields {
			if !yield(o.Raw[f.name:f.nameEnd], o.Raw[f.value:f.end]) {
				return
			}
		}
	}
}

// The maximum number of members that are indexed, of one object and of a page, so that an
// answer that consists of names takes little more memory than its bytes.
const (
	maxMembers = 1 << 8
	maxFields  = 1 << 18
)

// scanArray appends the objects of an array of objects, and reports whether the body is
// one. The error is that of full.
func (p *Page) scanArray(body []byte) (bool, error) {
	if p.fields == nil {
		p.fields = make([]field, 0, 64) // not nil, even for objects without members
	}
	i := jsonscan.Space(body, 0)
	if i == len(body) || body[i] != '[' {
		return false, nil
	}
	i, more := jsonscan.First(body, i+1, ']')
	for more {
		if i == len(body) || body[i] != '{' {
			return false, nil
		}
		if err := p.full(); err != nil {
			return false, err
		}
		end := p.scanObject(body, i)
		if end < 0 {
			return false, nil
		}
		i, more = jsonscan.Next(body, end, ']')
	}
	return i >= 0 && jsonscan.Space(body, i) == len(body), nil
}

// scanObject appends the object whose brace is body[start], with its members unless they
// are too many. It returns the index after it, or -1.
func (p *Page) scanObject(body []byte, start int) int {
	first, limit := len(p.fields), min(len(p.fields)+maxMembers, maxFields)
	fields, indexed := p.fields, true
	i, more := jsonscan.First(body, start+1, '}')
	for more {
		m := jsonscan.ReadMember(body, i, maxScanned)
		if m.End < 0 {
			return -1
		}
		if indexed = indexed && len(fields) < limit; indexed {
			fields = append(fields, field{uint32(m.Name - start), uint32(m.NameEnd - start), uint32(m.Value - start), uint32(m.End - start)})
		}
		i, more = jsonscan.Next(body, m.End, '}')
	}
	if i < 0 {
		return -1
	}
	o := Object{Raw: body[start:i:i]}
	if indexed {
		o.fields = fields[first:len(fields):len(fields)]
		p.fields = fields
	}
	p.Objects = append(p.Objects, o)
	return i
}

// skim sends r and reads its answer, of any size, like jsonscan.Skim. After an error it has
// found nothing: fields are empty.
func (c *Client) skim(ctx context.Context, r request, path []string, fields map[string]string) (found bool, size int64, err error) {
	err = c.do(ctx, r, func(resp *http.Response) error {
		found, size, err = jsonscan.Skim(resp.Body, path, fields)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, jsonscan.ErrIncomplete):
			return fmt.Errorf("the answer's JSON is incomplete, it ends after %d bytes", size)
		case errors.Is(err, jsonscan.ErrNotObject):
			return errors.New("the answer is not the expected JSON object")
		}
		return fmt.Errorf("read the answer: %w", err)
	})
	if err != nil {
		clear(fields)
		return false, 0, err
	}
	return found, size, nil
}
