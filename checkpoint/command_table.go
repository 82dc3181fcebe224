package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// countKey is the key of the counts in the bucket commanded.
var countKey = []byte("count")

// keptCommand is a command as stored in the file. Times are milliseconds since 1970.
type keptCommand struct {
	Key       string       `json:"key,omitempty"`
	Appliance string       `json:"appliance"`
	Subject   string       `json:"subject,omitempty"`
	Body      []byte       `json:"body"`
	Accepted  int64        `json:"accepted"`
	State     CommandState `json:"state"`
	Note      []byte       `json:"note,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	Done      int64        `json:"done,omitzero"`
}

func (k *keptCommand) command(id uint64) Command {
	c := Command{
		ID: id, Key: k.Key, Appliance: k.Appliance, Subject: k.Subject, Body: k.Body,
		Accepted: time.UnixMilli(k.Accepted).UTC(), State: k.State, Note: k.Note, Reason: k.Reason,
	}
	if k.Done != 0 {
		c.Done = time.UnixMilli(k.Done).UTC()
	}
	return c
}

// commandTable is the commands and their indexes within one transaction.
type commandTable struct {
	commands, waiting, subjects, done, keys, commanded *boltfile.Table
	pending, ended                                     uint64 // counts of commands
}

func openCommandTable(tx *boltfile.Tx) *commandTable {
	d := &commandTable{
		commands: tx.Table(commandsBucket), waiting: tx.Table(waitingBucket), subjects: tx.Table(subjectsBucket),
		done: tx.Table(doneBucket), keys: tx.Table(keysBucket), commanded: tx.Table(commandedBucket),
	}
	d.pending, d.ended = commandCounts(tx.Tx)
	return d
}

// commandCounts returns how many commands are pending and how many are done.
func commandCounts(tx *bolt.Tx) (pending, ended uint64) {
	if commanded := tx.Bucket(commandedBucket); commanded != nil { // else a file of an older version, opened read-only
		if counts := commanded.Get(countKey); len(counts) == 16 {
			return binary.BigEndian.Uint64(counts), binary.BigEndian.Uint64(counts[8:])
		}
	}
	return 0, 0
}

// close writes the counts.
func (d *commandTable) close() error {
	counts := binary.BigEndian.AppendUint64(appendUint64(d.pending), d.ended)
	if err := d.commanded.Put(countKey, counts); err != nil {
		return fmt.Errorf("counts of commands: %w", err)
	}
	return nil
}

// get returns a command, or nil if there is none.
func (d *commandTable) get(id uint64) (*keptCommand, error) {
	return parseCommand(d.commands.Get(appendUint64(id)))
}

func parseCommand(value []byte) (*keptCommand, error) {
	if value == nil {
		return nil, nil
	}
	k := new(keptCommand)
	if err := json.Unmarshal(value, k); err != nil {
		return nil, fmt.Errorf("%w: a command: %w", boltfile.ErrUnreadable, err)
	}
	return k, nil
}

func (d *commandTable) put(id uint64, k *keptCommand) error {
	value, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	return d.commands.Put(appendUint64(id), value)
}

// indexPending adds a pending command to the indexes.
func (d *commandTable) indexPending(id uint64, k *keptCommand) error {
	waiting, err := d.waiting.Make([]byte(k.Appliance))
	if err != nil {
		return err
	}
	d.pending++
	return waiting.Put(appendUint64(id), []byte{})
}

// indexDone adds a done command to the indexes.
func (d *commandTable) indexDone(id uint64, k *keptCommand) error {
	d.ended++
	return d.done.Put(doneKey(id, k), []byte{})
}

// unindex removes a command from the index of pending or of done commands.
func (d *commandTable) unindex(id uint64, k *keptCommand) error {
	if k.State != CommandPending {
		d.ended--
		return d.done.Delete(doneKey(id, k))
	}
	d.pending--
	if waiting := d.waiting.Inside([]byte(k.Appliance)); waiting != nil {
		return waiting.Delete(appendUint64(id))
	}
	return nil
}

// subjectKey returns a command's key in the index of subjects.
func subjectKey(subject string, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(subject), 0), id)
}

// doneKey returns a command's key in the index of done commands.
func doneKey(id uint64, k *keptCommand) []byte {
	return binary.BigEndian.AppendUint64(appendUint64(uint64(max(k.Done, 0))), id)
}

// drop removes a command.
func (d *commandTable) drop(id uint64, k *keptCommand) error {
	if err := d.unindex(id, k); err != nil {
		return err
	}
	if k.Key != "" {
		if err := d.keys.Delete([]byte(k.Key)); err != nil {
			return err
		}
	}
	if k.Subject != "" {
		if err := d.subjects.Delete(subjectKey(k.Subject, id)); err != nil {
			return err
		}
	}
	return d.commands.Delete(appendUint64(id))
}

// forgetOldest removes up to limit commands that were done before a time, or that exceed
// maxDoneCommands.
func (d *commandTable) forgetOldest(before int64, limit int) error {
	for range limit {
		mark, _ := d.done.Cursor().First()
		if len(mark) != 16 || int64(binary.BigEndian.Uint64(mark)) >= before && d.ended <= maxDoneCommands {
			return nil
		}
		id := binary.BigEndian.Uint64(mark[8:])
		k, err := d.get(id)
		if err != nil {
			return err
		}
		if k == nil {
			return fmt.Errorf("%w: command %d is missing", boltfile.ErrUnreadable, id)
		}
		if err := d.drop(id, k); err != nil {
			return fmt.Errorf("forget command %d: %w", id, err)
		}
	}
	return nil
}
