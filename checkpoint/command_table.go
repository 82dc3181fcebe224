package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// countKey is the key of the counts in the bucket commanded.
const countKey = "count"

// keptCommand is a command as stored in the file. Times are milliseconds since 1970.
type keptCommand struct {
	id        []byte       // its key
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

func (k *keptCommand) command() Command {
	c := Command{
		ID: decode(k.id)[0], Key: k.Key, Appliance: k.Appliance, Subject: k.Subject, Body: k.Body,
		Accepted: time.UnixMilli(k.Accepted).UTC(), State: k.State, Note: k.Note, Reason: k.Reason,
	}
	if k.Done != 0 {
		c.Done = time.UnixMilli(k.Done).UTC()
	}
	return c
}

// parseCommand decodes a stored command; nil if value is nil.
func parseCommand(id, value []byte) (*keptCommand, error) {
	if value == nil {
		return nil, nil
	}
	k := &keptCommand{id: id}
	if err := json.Unmarshal(value, k); err != nil {
		return nil, fmt.Errorf("%w: a command: %w", boltfile.ErrUnreadable, err)
	}
	return k, nil
}

// commandTable is the commands and their indexes within one transaction.
type commandTable struct {
	commands, waiting, subjects, done, keys, commanded *boltfile.Table
	counts                                             CommandStats
}

func openCommandTable(tx *boltfile.Tx) *commandTable {
	return &commandTable{
		commands: tx.Table(commandsBucket), waiting: tx.Table(waitingBucket), subjects: tx.Table(subjectsBucket),
		done: tx.Table(doneBucket), keys: tx.Table(keysBucket), commanded: tx.Table(commandedBucket),
		counts: commandStats(tx.Tx),
	}
}

func commandStats(tx *bolt.Tx) CommandStats {
	n := decode(valueOf(tx, commandedBucket, countKey))
	return CommandStats{Pending: n[0], Done: n[1]}
}

// close writes the counts.
func (d *commandTable) close() {
	d.commanded.Put([]byte(countKey), encode(d.counts.Pending, d.counts.Done))
}

// get returns a command, or nil if there is none.
func (d *commandTable) get(id []byte) (*keptCommand, error) {
	return parseCommand(id, d.commands.Get(id))
}

// put stores a command, new or changed, and adds it to the index of its state.
func (d *commandTable) put(k *keptCommand) error {
	value, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	index, key := d.done, k.doneKey()
	if k.State == CommandPending {
		d.counts.Pending++
		key = k.id
		if index, err = d.waiting.Make([]byte(k.Appliance)); err != nil {
			return err
		}
	} else {
		d.counts.Done++
	}
	index.Put(key, []byte{})
	d.commands.Put(k.id, value)
	return nil
}

// unindex removes a command from the index of its state.
func (d *commandTable) unindex(k *keptCommand) {
	if k.State != CommandPending {
		d.counts.Done--
		d.done.Delete(k.doneKey())
		return
	}
	d.counts.Pending--
	if waiting := d.waiting.Inside([]byte(k.Appliance)); waiting != nil {
		waiting.Delete(k.id)
	}
}

// doneKey returns a command's key in the index of done commands.
func (k *keptCommand) doneKey() []byte { return append(encode(uint64(max(k.Done, 0))), k.id...) }

// subjectKey returns the key of the command with an ID in the index of subjects.
func subjectKey(subject string, id []byte) []byte {
	return append(append([]byte(subject), 0), id...)
}

// drop removes a command.
func (d *commandTable) drop(k *keptCommand) {
	d.unindex(k)
	d.commands.Delete(k.id)
	if k.Key != "" {
		d.keys.Delete([]byte(k.Key))
	}
	if k.Subject != "" {
		d.subjects.Delete(subjectKey(k.Subject, k.id))
	}
}

// forgetOldest removes up to limit commands that were done before a time, or that exceed
// maxDoneCommands.
func (d *commandTable) forgetOldest(before time.Time, limit int) error {
	for range limit {
		mark, _ := d.done.Cursor().First()
		if len(mark) != 16 || int64(binary.BigEndian.Uint64(mark)) >= before.UnixMilli() && d.counts.Done <= maxDoneCommands {
			return nil
		}
		id := bytes.Clone(mark[8:])
		k, err := d.get(id)
		if err == nil && k == nil {
			err = fmt.Errorf("%w: it is missing", boltfile.ErrUnreadable)
		}
		if err != nil {
			return fmt.Errorf("forget command %d: %w", decode(id)[0], err)
		}
		d.drop(k)
	}
	return nil
}
