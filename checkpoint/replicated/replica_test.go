package replicated_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
)

// memory is a replica in memory. Its records are numbered from 1 on: a record fits the state
// that has all before it.
type memory struct {
	mu      sync.Mutex
	records []string
	offset  uint64
	trail   string
}

// empty empties the replica, and returns it.
func (m *memory) empty() (replicated.Replica, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records, m.offset, m.trail = nil, 0, ""
	return m, nil
}

// record returns the record that fits the state, with some text.
func (m *memory) record(text string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%d:%s", len(m.records)+1, text)
}

func (m *memory) state() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.records)
}

func (m *memory) Offset() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offset
}

func (m *memory) At() checkpoint.Point {
	m.mu.Lock()
	defer m.mu.Unlock()
	return checkpoint.Point{Offset: m.offset, Trail: m.trail}
}

func (m *memory) Apply(records [][]byte, at checkpoint.Point) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Offset < m.offset {
		return fmt.Errorf("%w: offset %d after %d", checkpoint.ErrRecord, at.Offset, m.offset)
	}
	after := slices.Clone(m.records)
	for _, r := range records {
		if !strings.HasPrefix(string(r), fmt.Sprintf("%d:", len(after)+1)) {
			return fmt.Errorf("%w: %.20q after %d", checkpoint.ErrRecord, r, len(after))
		}
		after = append(after, string(r))
	}
	m.records, m.offset, m.trail = after, at.Offset, at.Trail
	return nil
}

func (m *memory) Dump(ctx context.Context, _ int, yield func([]byte) error) (checkpoint.Point, error) {
	m.mu.Lock()
	records, at := slices.Clone(m.records), checkpoint.Point{Offset: m.offset, Trail: m.trail}
	m.mu.Unlock()
	for _, r := range records {
		if err := yield([]byte(r)); err != nil {
			return checkpoint.Point{}, err
		}
	}
	return at, ctx.Err()
}
