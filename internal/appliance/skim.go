package appliance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
)

// skim sends r and returns the first maxSmall bytes of an object in its answer, which may have
// any size: the object at the root or, with elements, the first element of the array with that
// name; with elements "" the root is the array. It returns nil if the array is empty. What
// follows the object's beginning is not validated.
func (c *Client) skim(ctx context.Context, r request, isArray bool, elements string) (object []byte, err error) {
	err = c.do(ctx, r, func(resp *http.Response) error {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxSmall))
		body = bytes.TrimRight(body, "0123456789.+-eE") // a number that was cut would be another one
		if err == nil && isArray {
			body, err = firstElement(body, elements)
		}
		if err == nil && body != nil && !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
			err = errNotObject
		}
		object = body
		return err
	})
	return object, err
}

var errNotObject = errors.New("the answer is not the expected JSON object")

// firstElement returns the text from the first element of an array on, or nil if the array is
// empty. The array is the member with a name, or the whole text if name is empty.
func firstElement(text []byte, name string) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	expect := func(kind jsontext.Kind) bool {
		token, err := d.ReadToken()
		return err == nil && token.Kind() == kind
	}
	for found := name == ""; !found; {
		if d.InputOffset() == 0 && !expect(jsontext.KindBeginObject) {
			return nil, errNotObject
		}
		member, err := d.ReadToken()
		if err != nil || member.Kind() != jsontext.KindString {
			return nil, errNotObject
		}
		if found = member.String() == name; !found && d.SkipValue() != nil {
			return nil, errNotObject
		}
	}
	if !expect(jsontext.KindBeginArray) {
		return nil, errNotObject
	}
	if d.PeekKind() == jsontext.KindEndArray {
		return nil, nil
	}
	return text[d.InputOffset():], nil
}

// member returns a member of the beginning of an object, as written; nil if that does not have
// all of it.
func member(object []byte, name string) []byte {
	for written, value := range jsonscan.Members(object) {
		if string(written) == name {
			return value
		}
	}
	return nil
}
