package admin

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestMessagesAreRead(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []message
		end          error
	}{
		{"a message with all fields", "id: 1\nevent: a.b\ndata: {}\n\n", []message{{"1", "a.b", []byte("{}")}}, io.EOF},
		{"two messages", "data: 1\n\ndata: 2\n\n", []message{{data: []byte("1")}, {data: []byte("2")}}, io.EOF},
		{"comments are ignored", ":\n\n: alive\ndata: 1\n\n", []message{{data: []byte("1")}}, io.EOF},
		{"one space after a colon is removed", "data:1\n\ndata:  2\n\n", []message{{data: []byte("1")}, {data: []byte(" 2")}}, io.EOF},
		{"lines of data are joined", "data: [1,\ndata: 2]\n\n", []message{{data: []byte("[1,\n2]")}}, io.EOF},
		{"lines may end with CRLF", "data: 1\r\n\r\n", []message{{data: []byte("1")}}, io.EOF},
		{"unknown fields are ignored", "retry: 5\nother\ndata: 1\n\n", []message{{data: []byte("1")}}, io.EOF},
		{"a message without data is ignored", "id: 1\n\ndata: 2\n\n", []message{{data: []byte("2")}}, io.EOF},
		{"an incomplete message", "data: 1\n\ndata: 2\n", []message{{data: []byte("1")}}, io.ErrUnexpectedEOF},
		{"an incomplete line", "data: 1\n\ndat", []message{{data: []byte("1")}}, io.ErrUnexpectedEOF},
		{"an empty stream", "", nil, io.EOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := bufio.NewReader(strings.NewReader(c.stream))
			for _, want := range c.want {
				got, err := readMessage(r)
				require.True(t, err == nil && got.id == want.id && got.event == want.event && bytes.Equal(got.data, want.data), got, err, want)
			}
			got, err := readMessage(r)
			assert.ErrorIs(t, err, c.end, "then", got)
		})
	}
}

// FuzzMessagesRoundTrip checks that any event is written as one message, with its data on
// one line.
func FuzzMessagesRoundTrip(f *testing.F) {
	f.Add("7-1700000000000", "io.ndrbridge.detection.created", []byte(`{"data":{}}`))
	f.Add("a\nevent: x", "b\r", []byte("{\n\t\"a\": 1\r\n}"))
	f.Add("", "", []byte(" "))
	f.Fuzz(func(t *testing.T, id, event string, data []byte) {
		written := message{id, event, data}.appendTo(nil)
		r := bufio.NewReader(bytes.NewReader(append(written, keepAlive...)))
		got := require.Value(readMessage(r))(t)
		line := strings.NewReplacer("\r", " ", "\n", " ")
		assert.Equal(t, string(got.data), line.Replace(string(data)), "data", "was read as")
		for field, read := range map[string]string{id: got.id, event: got.event} {
			assert.True(t, read == field || read == "" && strings.ContainsAny(field, "\r\n\x00"), field, "was read as", read)
		}
		_, err := readMessage(r)
		assert.ErrorIs(t, err, io.EOF, "another message follows")
	})
}

func FuzzReadMessage(f *testing.F) {
	f.Add([]byte("id: 1\ndata: {}\n\n:\n\n"))
	f.Add([]byte("data\n\ndata:\r\n\r\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bufio.NewReader(bytes.NewReader(stream))
		for {
			_, err := readMessage(r)
			if err == nil {
				continue
			}
			require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), err)
			return
		}
	})
}
