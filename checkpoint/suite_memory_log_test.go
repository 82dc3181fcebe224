package checkpointtest

import (
	"bytes"
	"sync"

	"ndrbridge/checkpoint"
)

// MemoryLogs are logs in memory. The zero value is ready to use.
type MemoryLogs struct {
	mu   sync.Mutex
	logs map[string]*memoryLog
}

type memoryLog struct {
	mu      sync.Mutex
	owner   *MemoryLog
	records [][]byte
}

// MemoryLog is a log in memory as one of its owners sees it.
type MemoryLog struct{ *memoryLog }

// Take implements Logs.
func (l *MemoryLogs) Take(name string) (checkpoint.Log, error) {
	log := l.named(name)
	log.mu.Lock()
	defer log.mu.Unlock()
	log.owner = &MemoryLog{log}
	return log.owner, nil
}

func (l *MemoryLogs) named(name string) *memoryLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logs == nil {
		l.logs = map[string]*memoryLog{}
	}
	if l.logs[name] == nil {
		l.logs[name] = &memoryLog{}
	}
	return l.logs[name]
}

// Follow implements Logs.
func (l *MemoryLogs) Follow(name string, r *checkpoint.Replica) error {
	log := l.named(name)
	for {
		log.mu.Lock()
		from, end := r.Offset(), uint64(len(log.records))
		var record []byte
		if from < end {
			record = log.records[from]
		}
		log.mu.Unlock()
		if from >= end {
			return nil
		}
		if err := r.Apply([][]byte{record}, checkpoint.Point{Offset: from + 1}); err != nil {
			return err
		}
	}
}

// Append implements checkpoint.Log.
func (l *MemoryLog) Append(record []byte) (at checkpoint.Point, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner != l {
		return at, checkpoint.ErrNotOwner
	}
	l.records = append(l.records, bytes.Clone(record))
	return checkpoint.Point{Offset: uint64(len(l.records))}, nil
}
