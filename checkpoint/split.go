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
		if of.LagEvents > 0 {
			return fmt.Errorf("the sink %s has yet to get %d events: start ndrbridge without cluster in its configuration and let it deliver them, "+
				"or, if the sink is no longer configured, drop it with 'ndrbridge state forget %[1]s'", sink, of.LagEvents)
		}
		if parked := countsOf(tx, string(sink)).parked; parked > 0 {
			return fmt.Errorf("%d events are parked for the sink %s: start ndrbridge without cluster in its configuration and let it deliver them, "+
				"or, if the sink is no longer configured, drop it with 'ndrbridge state forget %[2]s'", parked, sink)
		}
		begin, err := openQueue(tx, string(sink)).begin()
		if err == nil && begin != (RedeliveryOffset{}) {
			err = fmt.Errorf("events are queued to be delivered to the sink %s again: start ndrbridge without cluster in its configuration and let it deliver them, "+
				"or, if the sink is no longer configured, drop it with 'ndrbridge state forget %[1]s'", sink)
		}
		return err
	})
}

// splitter divides a state among shards.
type splitter struct {
	ctx     context.Context
	tx      *bolt.Tx
	shardOf func(appliance string) int
	journal journal
	shards  []*boltfile.Builder
}

// divide divides the state, bucket by bucket, and yields all records.
func (d *splitter) divide() error {
	for _, step := range []func() error{d.positions, d.memories, d.sinks, d.deadLetters, d.commands} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, b := range d.shards {
		if err := b.Close(); err != nil {
			return err
		}
	}
	return nil
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

// put adds an entry to a shard.
func (d *splitter) put(shard int, root, name, key, value []byte) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	return d.shards[shard].Put(root, name, key, value)
}

// toAll adds an entry to all shards.
func (d *splitter) toAll(root, key, value []byte) error {
	for shard := range d.shards {
		if err := d.put(shard, root, nil, key, value); err != nil {
			return err
		}
	}
	return nil
}

// sequences sets the own sequence of a bucket in all shards.
func (d *splitter) sequences(root []byte, n uint64) {
	for _, b := range d.shards {
		b.Sequence(root, nil, n)
	}
}

// each calls do with the entries of a bucket that files of older versions do not have.
func (d *splitter) each(bucket []byte, do func(key, value []byte) error) error {
	if b := d.tx.Bucket(bucket); b != nil {
		return b.ForEach(do)
	}
	return nil
}

func (d *splitter) positions() error {
	return d.each(positionsBucket, func(name, position []byte) error {
		return d.put(d.ofSource(name), positionsBucket, nil, name, position)
	})
}

// memories divides what sources and sinks remember, and which changes are expected.
func (d *splitter) memories() error {
	for _, root := range [][]byte{knownBucket, forgetBucket} {
		err := d.each(root, func(name, _ []byte) error {
			of := func([]byte) int { return d.ofSource(name) }
			if appliance, is := bytes.CutPrefix(name, expectedName("")); is {
				of = func([]byte) int { return d.of(string(appliance)) }
			} else if bytes.HasPrefix(name, memoryName("")) {
				of = d.ofMemory
			}
			begun := make([]bool, len(d.shards))
			return d.tx.Bucket(root).Bucket(name).ForEach(func(key, value []byte) error {
				about := key
				if bytes.Equal(root, forgetBucket) {
					about = key[min(8, len(key)):]
				}
				shard := of(about)
				if !begun[shard] { // neither bucket is without the other
					begun[shard] = true
					d.shards[shard].Sequence(knownBucket, name, 0)
					d.shards[shard].Sequence(forgetBucket, name, 0)
				}
				return d.put(shard, root, name, key, value)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ofMemory returns the shard of what a sink remembers under a key.
func (d *splitter) ofMemory(key []byte) int {
	source, _ := bytes.CutPrefix(key, []byte(sourceKeyPrefix))
	if len(source) == len(key) {
		return 0
	}
	return d.ofSource(source)
}

// sinks gives all sinks to all shards, as they are when they have committed all events.
func (d *splitter) sinks() error {
	d.sequences(journalBucket, d.journal.last)
	for _, root := range [][]byte{cursorsBucket, pausedBucket} {
		err := d.each(root, func(sink, value []byte) error {
			if bytes.Equal(root, cursorsBucket) {
				value = encode(d.journal.last)
			}
			return d.toAll(root, sink, value)
		})
		if err != nil {
			return err
		}
	}
	if requeued := d.tx.Bucket(requeuedBucket); requeued != nil {
		last := requeued.Sequence()
		err := requeued.ForEachBucket(func(sink []byte) error {
			last = max(last, requeued.Bucket(sink).Sequence())
			return nil
		})
		if err != nil {
			return err
		}
		d.sequences(requeuedBucket, last)
	}
	return d.each(countsBucket, func(sink, value []byte) error {
		return d.put(0, countsBucket, nil, sink, value)
	})
}

// deadLetters divides the dead letters of sources by appliance, and those of sinks by the
// appliance of the event.
func (d *splitter) deadLetters() error {
	stats := map[Owner][]DeadStats{} // of each shard
	of := func(owner []byte) []DeadStats {
		if stats[Owner(owner)] == nil {
			stats[Owner(owner)] = make([]DeadStats, len(d.shards))
		}
		return stats[Owner(owner)]
	}
	err := d.each(deadBucket, func(owner, _ []byte) error {
		return d.tx.Bucket(deadBucket).Bucket(owner).ForEach(func(key, value []byte) error {
			shard := d.ofDead(owner, value)
			s := &of(owner)[shard]
			s.Count++
			s.Bytes += deadBody(value)
			return d.put(shard, deadBucket, owner, key, value)
		})
	})
	if err != nil {
		return err
	}
	err = d.each(deadSizeBucket, func(owner, value []byte) error {
		of(owner)[d.ofDead(owner, nil)].Dropped = decodeDeadStats(value).Dropped
		return nil
	})
	for _, owner := range slices.Sorted(maps.Keys(stats)) {
		for shard, s := range stats[owner] {
			if value := s.encode(); value != nil && err == nil {
				err = d.put(shard, deadSizeBucket, nil, []byte(owner), value)
			}
		}
	}
	return err
}

// ofDead returns the shard of a dead letter as it is stored.
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

// commands divides the commands by appliance, and gives them IDs of their shards.
func (d *splitter) commands() error {
	counts := make([]CommandStats, len(d.shards))
	err := d.each(commandsBucket, func(id, value []byte) error {
		k, err := parseCommand(id, value)
		if err != nil {
			return err
		}
		shard := d.of(k.Appliance)
		k.id = encode(d.ids(shard).nth(decode(id)[0]))
		if k.State == CommandPending {
			counts[shard].Pending++
			err = d.put(shard, waitingBucket, []byte(k.Appliance), k.id, []byte{})
		} else {
			counts[shard].Done++
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
	})
	if commands := d.tx.Bucket(commandsBucket); commands != nil && commands.Sequence() > 0 {
		for shard, b := range d.shards {
			b.Sequence(commandsBucket, nil, d.ids(shard).nth(commands.Sequence()))
		}
	}
	for shard, c := range counts {
		if err == nil && c != (CommandStats{}) {
			err = d.put(shard, commandedBucket, nil, []byte(countKey), encode(c.Pending, c.Done))
		}
	}
	return err
}

func (d *splitter) ids(shard int) IDs { return IDs{Shard: uint64(shard), Of: uint64(len(d.shards))} }
