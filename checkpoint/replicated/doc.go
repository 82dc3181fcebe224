// Package replicated keeps a shard's log in a NATS JetStream stream, and makes replicas of
// its state.
//
// Each message carries the sequence number that the stream's last message must have. That is the
// fence: as soon as another member has taken the log, nothing that the old owner sends is
// stored. A record larger than a message is a chain of them, complete with its last part;
// chains that are not completed do not count.
//
// These guarantees hold while the servers keep what they acknowledged:
//
//   - A record whose Append returned nil is in the log, once, behind those before it.
//   - A record whose Append returned checkpoint.ErrNotOwner is not, and never will be.
//   - Behind a take there are no records of other owners, until the next take.
//
// If the servers lose the end of a log, what is left is a state of the past. Owners and
// replicas that have more detect it, and Recover continues the log from what they have.
package replicated
