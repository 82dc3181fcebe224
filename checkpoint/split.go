package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/transform"
)

// splitBytes is about how large the records of a split are.
const splitBytes = 1 << 20

// Split divides the state of a single process, which no process may have open, over the
// shards of a cluster. It yields, for each shard, the records that make its state out of an
// empty replica, at least one; each is valid during the call of yield only. The file is not
// changed.
//
// Every shard gets what belongs to its appliances: positions, what sources and sinks
// remember, dead letters, and commands, with the IDs that IDs assigns to the shard, in their
// order. What no appliance is known of belongs to shard 0. Every shard knows all sinks. The
// journal is not divided: its events have been delivered. Numbers of events go on from the
// last one in all shards, so that no dead letter gets the key of another.
//
// Split returns an error that says what to do unless every sink has committed all events, and
// no redelivery is queued and no event parked.
func Split(ctx context.Context, path string, shardOf func(appliance string) int, shards int, yield func(shard int, record []byte) error) (err error) {
	defer func() { err = wrapf(err, "split the state") }()
	s, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	if s.copied {
		return fmt.Errorf("%s is a copy of the replicated log of a cluster, not the state of a single process", path)
	}
	return s.view(ctx, func(tx *bolt.Tx) error {
		j, err := openJournal(tx)
		if err == nil {
			err = delivered(tx, &j)
		}
		if err != nil {
			return err
		}
		d := &splitter{ctx: ctx, tx: tx, shardOf: shardOf, journal: j}
		for n := range shards {
			b := &boltfile.Builder{Scheme: scheme, PieceBytes: splitBytes, Yield: func(record []byte) error { return yield(n, record) }}
			d.shards = append(d.shards, b)
		}
		return d.divide()
	})
}

// delivered returns an error unless every sink has committed the whole journal, and has
// nothing to get again.
func delivered(tx *bolt.Tx, j *journal) error {
	return tx.Bucket(cursorsBucket).ForEach(func(sink, value []byte) error {
		of, err := j.statsOf(decode(value)[0])
		if err != nil {
			return err
		}
		begin, err := openQueue(tx, string(sink)).begin()
		if err != nil {
			return err
		}
		left := ""
		switch parked := countsOf(tx, string(sink)).parked; {
		case of.LagEvents > 0:
			left = fmt.Sprintf("the sink %s has yet to get %d events", sink, of.LagEvents)
		case parked > 0:
			left = fmt.Sprintf("%d events are parked for the sink %s", parked, sink)
		case begin != RedeliveryOffset{}:
			left = fmt.Sprintf("events are queued to be delivered to the sink %s again", sink)
		default:
			return nil
		}
		return fmt.Errorf("%s: start ndrbridge without cluster in its configuration and let it deliver them, "+
			"or, if the sink is no longer configured, drop it with 'ndrbridge state forget %s'", left, sink)
	})
}

// splitter divides a state among shards.
type splitter struct {
	ctx     context.Context
	tx      *bolt.Tx
	shardOf func(appliance string) int
	journal journal
	shards  []*boltfile.Builder
	dead    map[Owner][]DeadStats // of each shard
	counts  []CommandStats        // of each shard
	begun   map[string]bool       // the known buckets that were begun, by shard and name
}

// divide gives every entry to its shard, or to all, and yields all records. Counts, and indexes
// of commands, are made again.
func (d *splitter) divide() error {
	d.dead, d.counts, d.begun = map[Owner][]DeadStats{}, make([]CommandStats, len(d.shards)), map[string]bool{}
	d.sequences(journalBucket, d.journal.last)
	err := d.tx.ForEach(func(root []byte, outer *bolt.Bucket) error {
		if bytes.Equal(root, journalBucket) {
			return nil
		}
		redelivered := outer.Sequence()
		err := outer.ForEach(func(key, value []byte) error {
			if value != nil {
				return d.entry(root, key, value)
			}
			redelivered = max(redelivered, outer.Bucket(key).Sequence())
			return outer.Bucket(key).ForEach(func(k, v []byte) error { return d.nested(root, key, k, v) })
		})
		if bytes.Equal(root, requeuedBucket) {
			d.sequences(root, redelivered)
		}
		return err
	})
	if commands := d.tx.Bucket(commandsBucket); commands != nil && commands.Sequence() > 0 {
		for shard, b := range d.shards {
			b.Sequence(commandsBucket, nil, d.ids(shard).nth(commands.Sequence()))
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(d.dead)) {
		for shard, s := range d.dead[owner] {
			if value := s.encode(); value != nil && err == nil {
				err = d.put(shard, deadSizeBucket, nil, []byte(owner), value)
			}
		}
	}
	for shard, b := range d.shards {
		if c := d.counts[shard]; err == nil && c != (CommandStats{}) {
			err = d.put(shard, commandedBucket, nil, []byte(countKey), encode(c.Pending, c.Done))
		}
		if err == nil {
			err = b.Close()
		}
	}
	return err
}

// entry divides an entry of a bucket of the file. All shards know all sinks, as they are when they
// have committed all events.
func (d *splitter) entry(root, key, value []byte) error {
	switch string(root) {
	case string(positionsBucket):
		return d.put(d.ofSource(key), root, nil, key, value)
	case string(cursorsBucket), string(pausedBucket):
		if bytes.Equal(root, cursorsBucket) {
			value = encode(d.journal.last)
		}
		for shard := range d.shards {
			if err := d.put(shard, root, nil, key, value); err != nil {
				return err
			}
		}
	case string(countsBucket):
		return d.put(0, root, nil, key, value)
	case string(deadSizeBucket):
		d.deadStats(key)[d.ofDead(key, nil)].Dropped = decodeDeadStats(value).Dropped
	case string(commandsBucket):
		return d.command(key, value)
	}
	return nil
}

// nested divides an entry of a bucket in a bucket: a known entry or a dead letter.
func (d *splitter) nested(root, name, key, value []byte) error {
	switch string(root) {
	case string(knownBucket), string(forgetBucket):
		about := key
		if bytes.Equal(root, forgetBucket) {
			about = key[min(8, len(key)):]
		}
		shard := d.ofSource(name)
		if appliance, is := bytes.CutPrefix(name, expectedName("")); is {
			shard = d.of(string(appliance))
		} else if bytes.HasPrefix(name, memoryName("")) {
			shard = 0
			if source, is := bytes.CutPrefix(about, []byte(sourceKeyPrefix)); is {
				shard = d.ofSource(source)
			}
		}
		if begun := fmt.Sprint(shard, string(name)); !d.begun[begun] { // neither bucket is without the other
			d.begun[begun] = true
			d.shards[shard].Sequence(knownBucket, name, 0)
			d.shards[shard].Sequence(forgetBucket, name, 0)
		}
		return d.put(shard, root, name, key, value)
	case string(deadBucket):
		shard := d.ofDead(name, value)
		s := &d.deadStats(name)[shard]
		s.Count++
		s.Bytes += deadBody(value)
		return d.put(shard, root, name, key, value)
	}
	return nil
}

// command divides a command by appliance, and gives it an ID of its shard.
func (d *splitter) command(id, value []byte) error {
	k, err := parseCommand(id, value)
	if err != nil {
		return err
	}
	shard := d.of(k.Appliance)
	k.id = encode(d.ids(shard).nth(decode(id)[0]))
	if k.State == CommandPending {
		d.counts[shard].Pending++
		err = d.put(shard, waitingBucket, []byte(k.Appliance), k.id, []byte{})
	} else {
		d.counts[shard].Done++
		err = d.put(shard, doneBucket, nil, k.doneKey(), []byte{})
	}
	if err == nil && k.Subject != "" {
		err = d.put(shard, subjectsBucket, nil, subjectKey(k.Subject, k.id), []byte{})
	}
	if err == nil && k.Key != "" {
		err = d.put(shard, keysBucket, nil, []byte(k.Key), k.id)
	}
	if err != nil {
		return err
	}
	return d.put(shard, commandsBucket, nil, k.id, value)
}

// put adds an entry to a shard.
func (d *splitter) put(shard int, root, name, key, value []byte) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	return d.shards[shard].Put(root, name, key, value)
}

// sequences sets the own sequence of a bucket in all shards.
func (d *splitter) sequences(root []byte, n uint64) {
	for _, b := range d.shards {
		b.Sequence(root, nil, n)
	}
}

// deadStats returns the counts of an owner's dead letters in each shard.
func (d *splitter) deadStats(owner []byte) []DeadStats {
	if d.dead[Owner(owner)] == nil {
		d.dead[Owner(owner)] = make([]DeadStats, len(d.shards))
	}
	return d.dead[Owner(owner)]
}

// of returns the shard of an appliance. What belongs to none, or to the bridge itself,
// belongs to shard 0.
func (d *splitter) of(appliance string) (shard int) {
	if appliance == "" || appliance == transform.Bridge {
		return 0
	}
	return d.shardOf(appliance)
}

// ofSource returns the shard of a source, given its name.
func (d *splitter) ofSource(name []byte) (shard int) {
	appliance, _, _ := bytes.Cut(name, []byte("/"))
	return d.of(string(appliance))
}

// ofDead returns the shard of a dead letter as it is stored: that of its source, or of the
// appliance of its event.
func (d *splitter) ofDead(owner, value []byte) int {
	if source, is := bytes.CutPrefix(owner, []byte(sourceOwners)); is {
		return d.ofSource(source)
	}
	_, body, _ := bytes.Cut(value, []byte{'\n'})
	if event, err := parseEvent(body); err == nil {
		return d.of(event.Appliance)
	}
	return 0
}

func (d *splitter) ids(shard int) IDs { return IDs{Shard: uint64(shard), Of: uint64(len(d.shards))} }
