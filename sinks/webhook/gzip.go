package webhook

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// worthZipping is the size from which a body is compressed: a smaller one fits
// into one packet as it is.
const worthZipping = 1 << 10

// zippers are kept, since each has tables of hundreds of kilobytes.
type zippers struct{ pool sync.Pool }

// zip returns body compressed (RFC 1952), in memory of its own.
func (z *zippers) zip(body []byte) []byte {
	w, ok := z.pool.Get().(*gzip.Writer)
	if !ok {
		// Half the time of the default level, for a tenth more bytes.
		w, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed)
	}
	defer z.pool.Put(w)
	var zipped bytes.Buffer
	zipped.Grow(len(body) / 2)
	w.Reset(&zipped)
	_, _ = w.Write(body) // memory takes every write
	_ = w.Close()
	return zipped.Bytes()
}
