// Package cluster divides the shards of a configuration among the bridges of a cluster,
// its members, and moves them when members come, go or fail.
//
// Members publish an entry each in a Registry, from which everybody ranks the live ones for
// each shard by rendezvous hashing. The ranking decides who tries to own a shard, and when.
// It decides nothing about safety, for which a wrong view is harmless: a member owns a
// shard if the shard's log has accepted its take (see checkpoint/replicated), and acts for
// it while it has a lease (see cluster/lease).
package cluster
