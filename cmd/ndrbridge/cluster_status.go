package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// printCluster prints the state of a cluster for a person.
func (c *command) printCluster(s admin.Cluster, now time.Time) {
	fmt.Fprintf(c.stdout, "cluster %s, as seen by %s\n\n", terminal.Printable(s.Name), terminal.Printable(s.Member))
	membersTable(s.Members, now).Print(c.stdout, c.width(), c.colours())
	fmt.Fprintln(c.stdout)
	shardsTable(s.Shards, now).Print(c.stdout, c.width(), c.colours())
	c.printAdvice(clusterAdvice(s))
}

func membersTable(members []admin.ClusterMember, now time.Time) *terminal.Table {
	t := terminal.NewTable("MEMBER", "VERSION", "SINCE", "OWNS", "FOLLOWS", "CONFIG")
	for _, m := range members {
		config := terminal.Cell{Text: m.Config}
		if m.Config == admin.ConfigDiffers {
			config = terminal.Red.Cell("DIFFERS")
		}
		t.Add(m.Member, m.Version, terminal.Ago(m.Since, now), len(m.Owns), len(m.Follows), config)
	}
	return t
}

func shardsTable(shards []admin.ClusterShard, now time.Time) *terminal.Table {
	t := terminal.NewTable("SHARD", "OWNER", "LEASE", "FOLLOWER", "BEHIND", "LOG", "SNAPSHOT", "APPLIANCES", "NOTE")
	for _, s := range shards {
		lease := "-"
		if s.Owner != "" {
			lease = fmt.Sprintf("%.1fs", s.LeaseSeconds)
		}
		var followers, behind []string
		for _, f := range s.Followers {
			followers, behind = append(followers, f.Member), append(behind, fmt.Sprint(f.Behind))
		}
		t.Add(configs.ShardName(s.Shard), cmp.Or(s.Owner, "-"), lease, textOr(followers, "-"), textOr(behind, "-"),
			terminal.Bytes(s.LogBytes), terminal.Ago(s.Snapshot, now), textOr(appliancesOf(s), "-"), shardNote(s))
	}
	return t
}

// textOr returns the texts joined, or other if there are none.
func textOr(texts []string, other string) string { return cmp.Or(strings.Join(texts, ", "), other) }

// appliancesOf returns the names of a shard's appliances, and (bridge) for the bridge's own
// events.
func appliancesOf(s admin.ClusterShard) []string {
	if s.Shard == 0 {
		return append(slices.Clone(s.Appliances), "(bridge)")
	}
	return s.Appliances
}

// shardNote describes an unusual condition of a shard.
func shardNote(s admin.ClusterShard) terminal.Cell {
	switch {
	case s.Owner != "" && s.Error != "":
		return terminal.Yellow.Cell("cannot be followed here")
	case s.Owner != "":
		return terminal.Cell{}
	case s.Next != "":
		return terminal.Red.Cell(fmt.Sprintf("no owner for %s: %s takes it in %s", terminal.Seconds(s.WithoutOwnerSeconds), s.Next, terminal.Seconds(s.NextSeconds)))
	}
	return terminal.Red.Cell("no owner for " + terminal.Seconds(s.WithoutOwnerSeconds))
}

// clusterText summarizes a cluster in a line.
func clusterText(s admin.Cluster) string {
	text := fmt.Sprintf("%s: this is %s, one of %s", s.Name, s.Member, terminal.Count(len(s.Members), "member"))
	for _, m := range s.Members {
		if m.Member == s.Member {
			text += fmt.Sprintf("; it owns %d and follows %d of %s", len(m.Owns), len(m.Follows), terminal.Count(len(s.Shards), "shard"))
		}
	}
	return text
}

// shardsText returns the names of one or more shards after the word for them.
func shardsText(names []string) string {
	if len(names) == 1 {
		return "shard " + names[0]
	}
	return "shards " + strings.Join(names, ", ")
}

// clusterAdvice returns what to do about the problems of a cluster, one line each.
func clusterAdvice(s admin.Cluster) []string {
	var lines, orphans, unfollowed, differing []string
	for _, shard := range s.Shards {
		name := configs.ShardName(shard.Shard)
		switch {
		case shard.Owner == "":
			orphans = append(orphans, name)
		case len(shard.Followers) == 0:
			unfollowed = append(unfollowed, name)
		}
		if shard.Error != "" {
			lines = append(lines, fmt.Sprintf("shard %s at %s: %s", name, s.Member, shard.Error))
		}
	}
	for _, m := range s.Members {
		if m.Config == admin.ConfigDiffers {
			differing = append(differing, m.Member)
		}
	}
	if len(orphans) > 0 {
		lines = append(lines, fmt.Sprintf("no member owns %s: the appliances there are not polled. If this lasts for more than 30 seconds, run ndrbridge check --connect; if NATS lost a part of a shard's log, run ndrbridge cluster recover", shardsText(orphans)))
	}
	switch {
	case len(s.Members) == 1:
		lines = append(lines, "there is no other member to take over if this one fails")
	case len(unfollowed) > 0:
		lines = append(lines, fmt.Sprintf("no member follows %s: if this lasts for more than ten minutes, see the log output of the other members", shardsText(unfollowed)))
	}
	if len(differing) > 0 {
		lines = append(lines, fmt.Sprintf("the configuration of %s differs from that of %s: give all members the same one", strings.Join(differing, ", "), s.Member))
	}
	return lines
}
