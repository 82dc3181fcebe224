package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"ndrbridge/checkpoint"
)

// simDisk is a member's disk. It survives crashes.
type simDisk struct {
	mu    sync.Mutex
	files map[string]*simFile
	stall *gate // what passes it waits while the disk does not answer
}

func (d *simDisk) setStall(g *gate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stall = g
}

func newSimDisk() *simDisk { return &simDisk{files: make(map[string]*simFile)} }

// simFile is a copy: a state, which here is a number and a sum over all
// records that led to it.
type simFile struct {
	disk    *simDisk
	path    string
	at      checkpoint.Point
	state   simState
	open    bool
	damaged bool
}

type simState struct {
	Number uint64 `json:"number"` // of records
	Sum    uint64 `json:"sum"`
}

// simRecord leads from one state to the next. Those of a dump have no Before.
type simRecord struct {
	Before *simState `json:"before,omitempty"`
	After  simState  `json:"after"`
	Owner  string    `json:"owner"`
}

func (r simRecord) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return b
}

// next returns the record that an owner makes out of a state.
func (s simState) next(owner string) simRecord {
	h := fnv.New64a()
	fmt.Fprint(h, s.Number, s.Sum, owner)
	return simRecord{Before: &s, After: simState{s.Number + 1, h.Sum64()}, Owner: owner}
}

func (d *simDisk) openFile(path string) (*simFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[path]
	if f == nil {
		f = &simFile{disk: d, path: path}
		d.files[path] = f
	}
	if f.open {
		return nil, checkpoint.ErrLocked
	}
	if f.damaged {
		return nil, checkpoint.ErrDamaged
	}
	f.open = true
	return f, nil
}

// crash closes all files as the end of a process does: what it has open is another file.
func (d *simDisk) crash() *simDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newSimDisk()
	for path, f := range d.files {
		after.files[path] = &simFile{disk: after, path: path, at: f.at, state: f.state}
	}
	return after
}

func (d *simDisk) exists(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[path] != nil
}

func (d *simDisk) remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, path)
	return nil
}

func (d *simDisk) rename(path, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[path]
	if f == nil || f.open {
		return fmt.Errorf("rename %s: %+v", path, f)
	}
	delete(d.files, path)
	f.path, d.files[to] = to, f
	return nil
}

func (f *simFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.open = false
	return nil
}

func (f *simFile) At() checkpoint.Point {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.at
}

func (f *simFile) read() simState {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.state
}

func (f *simFile) Apply(records [][]byte, at checkpoint.Point) error {
	f.disk.mu.Lock()
	stall := f.disk.stall
	f.disk.mu.Unlock()
	if err := stall.pass(); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.open {
		return errors.New("the file is closed")
	}
	state := f.state
	for _, record := range records {
		if len(record) == 0 {
			continue
		}
		var r simRecord
		if err := json.Unmarshal(record, &r); err != nil {
			return err
		}
		if r.Before != nil && *r.Before != state || r.Before == nil && state != (simState{}) {
			return checkpoint.ErrRecord
		}
		state = r.After
	}
	if f.state = state; at.Offset >= f.at.Offset {
		f.at = at
	}
	return nil
}

func (f *simFile) Dump(_ context.Context, _ int, yield func([]byte) error) (checkpoint.Point, error) {
	f.disk.mu.Lock()
	state, at := f.state, f.at
	f.disk.mu.Unlock()
	return at, yield(simRecord{After: state}.encode())
}

func (f *simFile) Sum() uint64 { return f.read().Sum }
