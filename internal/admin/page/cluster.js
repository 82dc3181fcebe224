// The cluster that the bridge is a member of: its log and its members.

import { make, part, sync, time, write, writeOrHide } from "./elements.js";
import * as format from "./format.js";
import { showShape } from "./states.js";

// showCluster shows the state of a cluster, or hides the section if there is none.
export function showCluster(section, cluster) {
  section.hidden = !cluster;
  if (!cluster) return;
  write(part(section, "title"), `Cluster ${cluster.name}, as seen by ${cluster.member}`);
  const owner = part(section, "owner");
  if (cluster.owner) showShape(owner, "ok", `${cluster.owner} owns the log`);
  else showShape(owner, "bad", `No owner for ${format.duration(cluster.without_owner_seconds ?? 0)}`);
  const snapshot = cluster.snapshot ? `snapshot of ${format.toMinute(cluster.snapshot)}` : "no snapshot yet";
  write(part(section, "log"), `Generation ${cluster.generation} of the log, ${format.bytes(cluster.log_bytes)}, ${snapshot}`);
  writeOrHide(part(section, "error"), cluster.error);
  sync(part(section, "members"), cluster.members, { key: (m) => m.member, create: () => make("member-card"), fill: fillMember });
}

const states = {
  owning: ["ok", "Owns the log"],
  taking: ["unknown", "Takes the log"],
  releasing: ["unknown", "Releases the log"],
  away: ["warn", "Does not follow the log"],
};

const configurations = {
  same: ["ok", "Same configuration"],
  differs: ["warn", "Different configuration"],
};

function fillMember(card, m) {
  write(part(card, "name"), m.member);
  write(part(card, "version"), m.version);
  part(card, "since-when").hidden = !m.since;
  if (m.since) time(part(card, "since"), m.since, format.toMinute);
  const following = m.ready ? ["ok", "Standby, can take over"] : ["warn", "Standby, cannot take over yet"];
  showShape(part(card, "state"), ...(states[m.state] ?? following));
  showShape(part(card, "config"), ...(configurations[m.config] ?? ["unknown", "Another version"]));
  write(part(card, "copy"), `Copy up to message ${m.offset} of generation ${m.generation}${m.behind > 0 ? `, ${format.counted(m.behind, "message")} behind` : ""}`);
  writeOrHide(part(card, "error"), m.error);
}
