package checkpoint

// KeepCommands is how long commands that are done are kept.
const KeepCommands = keepCommands

// DeadOverhead is what a source's dead letter takes of the sources' share beside its body.
const DeadOverhead = deadOverhead

// ReadFromFile makes the store keep no events in memory.
func (s *Store) ReadFromFile() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = tail{}
}

// Synced reports whether the last transaction was synced to disk.
func (s *Store) Synced() bool { return !s.db.NoSync }

// SetMaxRecord replaces MaxRecord. No write may be under way.
func (s *Store) SetMaxRecord(n int) { s.maxRecord = n }

// SetFree replaces what returns the free space of the disk. No dump may be under way.
func (r *Replica) SetFree(free func(folder string) (bytes uint64, known bool)) { r.free = free }

// Synced reports whether the last transaction was synced to disk.
func (r *Replica) Synced() bool { return !r.db.NoSync }
