package replicated_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ndrbridge/checkpoint"
)

// memory is a replica in memory. Its records are numbered from 1 on: a record fits the state
// that has all before it.
type memory struct {
	mu      sync.Mutex
	records []string
	offset  uint64
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

func (m *memory) Apply(records [][]byte, offset uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if offset < m.offset {
		return fmt.Errorf("%w: offset %d after %d", checkpoint.ErrRecord, offset, m.offset)
	}
	after := slices.Clone(m.records)
	for _, r := range records {
		if !strings.HasPrefix(string(r), fmt.Sprintf("%d:", len(after)+1)) {
			return fmt.Errorf("%w: %.20q after %d", checkpoint.ErrRecord, r, len(after))
		}
		after = append(after, string(r))
	}
	m.records, m.offset = after, offset
	return nil
}

func (m *memory) Dump(ctx context.Context, _ int, yield func([]byte) error) (uint64, error) {
	m.mu.Lock()
	records, offset := slices.Clone(m.records), m.offset
	m.mu.Unlock()
	for _, r := range records {
		if err := yield([]byte(r)); err != nil {
			return 0, err
		}
	}
	return offset, ctx.Err()
}
