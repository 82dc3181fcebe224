package pipeline

import "fmt"

// Shard is the part of a cluster's work that a pipeline does. The configuration must be
// that of the shard.
type Shard struct {
	Number int // from 0
	Of     int // number of shards of the cluster
}

// name returns the shard's number as it is shown, or "" if s is nil.
func (s *Shard) name() string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%02d", s.Number)
}
