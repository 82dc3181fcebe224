package main

import (
	"fmt"
	"strings"
	"time"

	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
)

// printCluster prints the state of a cluster for a person.
func (c *command) printCluster(s admin.Cluster, now time.Time) {
	fmt.Fprintf(c.stdout, "cluster %s, as seen by %s\n", terminal.Printable(s.Name), terminal.Printable(s.Member))
	fmt.Fprintf(c.stdout, "log      generation %d, %s, %s\n", s.Generation, terminal.Bytes(s.LogBytes), snapshotText(s.Snapshot, now))
	fmt.Fprintf(c.stdout, "owner    %s\n\n", terminal.Printable(ownerText(s)))
	membersTable(s.Members, now).Print(c.stdout, c.width(), c.colours())
	c.printAdvice(clusterAdvice(s))
}

// snapshotText returns when the newest snapshot was made.
func snapshotText(made, now time.Time) string {
	if made.IsZero() {
		return "no snapshot yet"
	}
	return "snapshot made " + terminal.Ago(made, now)
}

// ownerText returns who owns the log of a cluster.
func ownerText(s admin.Cluster) string {
	if s.Owner == "" {
		return fmt.Sprintf("none for %s", terminal.Seconds(s.WithoutOwnerSeconds))
	}
	return fmt.Sprintf("%s; its lease lasts %.1fs unless it is renewed", s.Owner, s.LeaseSeconds)
}

func membersTable(members []admin.ClusterMember, now time.Time) *terminal.Table {
	t := terminal.NewTable("MEMBER", "STATE", "VERSION", "SINCE", "GENERATION", "OFFSET", "BEHIND", "CONFIG", "NOTE")
	for _, m := range members {
		config, note := terminal.Cell{Text: m.Config}, terminal.Cell{}
		if m.Config == admin.ConfigDiffers {
			config = terminal.Red.Cell("DIFFERS")
		}
		switch {
		case m.Error != "":
			note = terminal.Red.Cell(m.Error)
		case !m.Ready:
			note = terminal.Yellow.Cell("cannot take the log over yet")
		}
		t.Add(m.Member, m.State, m.Version, terminal.Ago(m.Since, now), m.Generation, m.Offset, m.Behind, config, note)
	}
	return t
}

// standbys returns how many members other than the owner there are, and how many of them can take
// the log over.
func standbys(s admin.Cluster) (all, ready int) {
	for _, m := range s.Members {
		if m.Member == s.Owner {
			continue
		}
		all++
		if m.Ready {
			ready++
		}
	}
	return all, ready
}

// clusterText summarizes a cluster in a line.
func clusterText(s admin.Cluster) string {
	all, ready := standbys(s)
	owner := "no member owns"
	if s.Owner != "" {
		owner = s.Owner + " owns"
	}
	return fmt.Sprintf("%s: %s the log; %d of %s can take it over", s.Name, owner, ready, terminal.Count(all, "standby"))
}

// clusterAdvice returns what to do about the problems of a cluster, one line each.
func clusterAdvice(s admin.Cluster) []string {
	var lines, differing []string
	if s.Owner == "" {
		lines = append(lines, "no member owns the log, so that no appliance is polled: if this lasts for more than 30 seconds, run ndrbridge check --connect")
	}
	if s.Error != "" {
		lines = append(lines, s.Error)
	}
	switch all, ready := standbys(s); {
	case s.Owner == "":
	case all == 0:
		lines = append(lines, "there is no other member to take over if this one fails")
	case ready == 0:
		lines = append(lines, "no other member can take over: if this lasts for more than ten minutes, see the log output of the other members")
	}
	for _, m := range s.Members {
		if m.Config == admin.ConfigDiffers {
			differing = append(differing, m.Member)
		}
	}
	if len(differing) > 0 {
		lines = append(lines, fmt.Sprintf("the configuration of %s differs from that of the owner: give all members the same one", strings.Join(differing, ", ")))
	}
	return lines
}
