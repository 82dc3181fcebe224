// Package cluster lets several bridges, its members, share one state, so that another member goes
// on when one dies. The state is in a log that one member at a time owns: the owner polls and
// delivers. The others are standbys: each applies the log to a copy of its own, and so can take it
// at once.
//
// The log decides who owns it: a member owns it if it has stored the member's take (see
// checkpoint/replicated), and acts while it has a lease (see [ndrbridge/internal/lease]).
// Nothing depends on what members know of each other.
//
// A member goes from state to state:
//
//	──► away ── the copy fits the log ──► following ──── its turn ────► taking
//	    ▲  ▲                                │     ▲                      │  │
//	    │  └─── the copy cannot follow ─────┘     └── another was first ─┘  │
//	    │                                                                   ▼
//	    ├──────────────────── fenced, or the state failed ─────────────── owning
//	    │                                                                   │ stopped
//	    └─────────────────────────── released ──────────────────────── releasing
//
// away: the member opens its copy, or waits until it tries again. following: a replica applies
// what the owner appends. taking: the log is to accept this member as its owner, and the replica
// is brought to the end of the log. owning: the pipeline runs. releasing: it stops cleanly, and the
// log is released, so that a standby need not wait.
//
// It is a standby's turn when the owner released the log, or when nothing was appended for a term and
// a quarter by the standby's clock, and up to a quarter longer, by chance, so that standbys rarely
// try together. The term is the owner's, which its messages say, or the standby's own if that is
// longer. Clocks may differ in rate by a quarter.
//
// Init creates a cluster once: it begins the first generation of its log, and gives the cluster an
// identity, which the settings, the log and all copies have. So the servers lost data if the settings
// or the log are missing, have another identity than a copy, or end before it. Then no member takes
// the log, and all keep their copies, until an operator has Continue begin the next generation with
// the latest copy. No sequence number is used in two ways, because each generation has a log of its
// own.
package cluster
