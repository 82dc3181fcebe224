// The cluster that the bridge is a member of: its members and shards.

import { make, part, sync, writeOrHide, time, write } from "./elements.js";
import * as format from "./format.js";
import { showShape } from "./states.js";

// shardName returns the number of a shard as everything else shows it.
export const shardName = (s) => String(s.shard).padStart(2, "0");

// showCluster shows the cluster of a status, or hides the section if there is none.
export function showCluster(section, cluster) {
  section.hidden = !cluster;
  if (!cluster) return;
  write(part(section, "title"), `Cluster ${cluster.name}, as seen by ${cluster.member}`);
  sync(part(section, "members"), cluster.members, { key: (m) => m.member, create: () => make("member-card"), fill: fillMember });
  sync(part(section, "shards"), cluster.shards, { key: shardName, create: () => make("shard-row"), fill: fillShard });
}

const configurations = {
  same: ["ok", "Same configuration"],
  differs: ["warn", "Different configuration"],
};

function fillMember(card, m) {
  write(part(card, "name"), m.member);
  write(part(card, "version"), m.version);
  part(card, "since-when").hidden = !m.since;
  if (m.since) time(part(card, "since"), m.since, format.toMinute);
  showShape(part(card, "config"), ...(configurations[m.config] ?? ["unknown", "Another version"]));
  write(part(card, "owns"), format.count(m.owns.length));
  write(part(card, "follows"), format.count(m.follows.length));
}

function fillShard(row, s) {
  const state = part(row, "state");
  const word = `Shard ${shardName(s)}: ${s.owner || "no owner"}`;
  if (!s.owner) showShape(state, "bad", word);
  else if (s.followers.length === 0 || s.error) showShape(state, "warn", word);
  else showShape(state, "ok", word);
  write(part(row, "followers"), s.followers.length > 0 ? `followed by ${s.followers.map(follower).join(", ")}` : "no followers");
  write(part(row, "log"), `log ${format.bytes(s.log_bytes)}${s.snapshot ? `, snapshot of ${format.toMinute(s.snapshot)}` : ""}`);
  const own = s.shard === 0 ? ["the bridge's own events"] : [];
  write(part(row, "appliances"), [...s.appliances, ...own].join(", ") || "no appliances");
  writeOrHide(part(row, "orphan"), s.owner ? "" : orphanInWords(s));
  writeOrHide(part(row, "error"), s.error);
}

const follower = (f) => (f.behind > 0 ? `${f.member}, ${format.counted(f.behind, "message")} behind` : f.member);

function orphanInWords(s) {
  const since = `No owner for ${format.duration(s.without_owner_seconds ?? 0)}`;
  return s.next ? `${since}; ${s.next} takes it in ${format.duration(s.next_seconds ?? 0)}.` : `${since}, and no member can take it.`;
}
