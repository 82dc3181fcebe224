// Package cluster divides the shards of a configuration among the bridges of a cluster,
// its members, and moves them when members come, go or fail.
//
// Members publish an entry each in a Registry, from which every member ranks the live ones for
// each shard by rendezvous hashing, so that all should own equally many. The ranking decides
// which member follows the log of a shard, which one tries to own it, and when. It decides
// nothing about safety, for which a wrong view is harmless: a member owns a shard if the
// shard's log has accepted its take (see checkpoint/replicated), and acts for it while it has
// a lease (see [ndrbridge/internal/lease]).
//
// This is what a member does with a shard:
//
//	──► away ── it should follow ─────► following ──── its turn ────► taking
//	    ▲  ▲                             │     ▲                      │  │ │
//	    │  └── should follow no longer ──┘     └── another was first ─┘  │ │
//	    │      or the replica failed                                     │ │
//	    ├───────────────── the replica did not catch up ─────────────────┘ │
//	    │                                                                  ▼
//	    ├──────────────────── fenced, or the state failed ────────────── owning
//	    │                                                                  │ stopped
//	    └─────────────────────────── released ─────────────────────── releasing
//
// away: another member owns the shard and yet another follows it, or this member failed to
// and waits before it tries again. following: a replica applies what the owner appends. A
// shard with an owner has one follower. taking: the log is to accept this member as its
// owner, and the replica is brought to the end of the log. owning: the pipeline of the shard
// runs. releasing: it stops cleanly, and the log is released, so that the next member need
// not wait.
//
// The turn of a member comes when the log is vacant, because its owner released it, or when it
// has been quiet for a term and a quarter by the member's clock: the owner's term, which its
// messages say, or the member's own if that is longer. Clocks may differ in rate by a quarter.
// The n-th in the ranking waits n quarters of a term longer, the last owner longest.
//
// Init creates a cluster once: it begins every log and gives the cluster an identity. So the
// servers lost data if a log is empty, has another identity than a member's file, or ends before
// it. Then no member takes the shard, and all keep their files, until an operator has the log
// continued from the latest copy.
package cluster
