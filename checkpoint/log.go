package checkpoint

import "errors"

var (
	// ErrNotOwner is returned if the log belongs to another process. The record is not in it.
	ErrNotOwner = errors.New("another process owns the log")
	// ErrRecord is returned if a record does not lead from the state that a replica has, or
	// cannot be read.
	ErrRecord = errors.New("the record does not fit the state")
)

// Log is a replicated log of the changes to a state. A store writes every transaction to it,
// as a record, before it commits the transaction to its file: the log is what is durable,
// and the file is a copy that is never ahead of it. A Replica makes the same state out of
// the records.
//
// Its methods are called from one goroutine.
type Log interface {
	// Append makes a record durable behind all earlier ones, and returns its offset; offsets
	// increase. It keeps record only until it returns. As long as it does not know whether the
	// log has the record, it keeps trying. ErrNotOwner means that another process owns the log,
	// which does not have the record. After any other error it is not known whether the log has
	// it. After an error nothing may be appended. An empty record changes nothing, and renews
	// the ownership.
	Append(record []byte) (offset uint64, err error)
}

// What records are written in. A replica applies records of lower numbers too, and returns
// ErrNewer for higher ones.
const (
	RecordFormat = 1
	Layout       = layoutVersion // of the state
)

// IDs are the command IDs that a store assigns: n*Of+Shard for n from 1, so that the stores
// of a cluster assign different ones, and an ID shows the shard. The zero value is 1, 2, 3 …
type IDs struct {
	Shard uint64 // below Of
	Of    uint64 // number of shards
}

// next returns the ID after the last one assigned, which may be one of other IDs.
func (i IDs) next(last uint64) uint64 {
	of := max(i.Of, 1)
	return (last/of+1)*of + i.Shard
}
