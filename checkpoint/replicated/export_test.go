package replicated

// ReadAll returns the records of messages that begin with number 1, and where each ends, by
// owner.
func ReadAll(messages []Message) (records []Read, err error) {
	var r reader
	for i, m := range messages {
		e, complete, err := r.read(uint64(i+1), m)
		if err != nil {
			return nil, err
		}
		if complete {
			records = append(records, Read{e.kind, r.owner, e.offset, string(e.record)})
		}
	}
	return records, nil
}

// Read is a complete record of a log.
type Read struct {
	Kind, Owner string
	Offset      uint64
	Record      string
}

// RestoreOne restores one snapshot.
var RestoreOne = restore

// Epoch returns the epoch of this owner, which is higher than all before it.
func (l *Log) Epoch() uint64 { return l.epoch }
