package appliance

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// generator generates realistic detections. It is not safe for concurrent use.
type generator struct {
	rand    *rand.Rand
	kinds   []kind
	host    string
	word    string
	size    int
	ids     int64
	members int64 // the last id of a participant
}

func newGenerator(o Options) *generator {
	return &generator{
		rand:  chance(o.Seed, chanceGenerator),
		kinds: catalog(),
		host:  o.Host, word: o.word(), size: o.Size,
	}
}

// nextID returns an unused detection id. Its upper half is the appliance's id, so that ids
// of different appliances do not collide.
func (g *generator) nextID(applianceID int64) int64 {
	g.ids++
	return applianceID<<32 + g.ids
}

// next returns a detection created at the time now, in milliseconds. Its ModTime is 0.
func (g *generator) next(now int64) Detection {
	k := g.kinds[g.rand.IntN(len(g.kinds))]
	d := Detection{
		Title: k.title, Type: k.name,
		Categories:   k.categories,
		MitreTactics: k.tactics, MitreTechniques: k.techniques,
		ApplianceID:        []int64{0, 0, 3, 6}[g.rand.IntN(4)],
		RecommendedFactors: []string{},
		Properties:         g.properties(k),
	}
	d.ID = g.nextID(d.ApplianceID)
	g.times(&d, now)
	if k.risk > 0 {
		d.RiskScore = new(min(99, max(1, k.risk+g.rand.IntN(21)-10)))
		if *d.RiskScore > 70 {
			d.Recommended, d.RecommendedFactors = true, []string{"top_offender", "rare_type"}[:1+g.rand.IntN(2)]
		}
	}
	d.IsUserCreated = strings.HasPrefix(k.name, "custom.")
	g.track(&d)
	for i := range 1 + g.rand.IntN(3) {
		d.Participants = append(d.Participants, g.participant(i, d.ApplianceID))
	}
	const around = 900_000 // the linked page shows 15 minutes before and after
	d.URL = fmt.Sprintf("https://%s/%s/#/detections/detail/%d/?from=%d&until=%d&interval_type=DT",
		g.host, g.word, d.ID, (d.StartTime-around)/1000, (d.UpdateTime+around)/1000)
	d.Description = g.describe(k, &d)
	return d
}

// times sets the times of a detection as they are on real appliances: it is created
// after the data that it is about.
func (g *generator) times(d *Detection, now int64) {
	d.UpdateTime = now - g.between(28*time.Second, 74*time.Minute)
	d.StartTime = d.UpdateTime - g.between(0, 2*time.Hour)
	d.CreateTime = min(now, d.StartTime+g.between(16*time.Second, 74*time.Second))
	if g.rand.IntN(3) > 0 {
		d.EndTime = d.UpdateTime
	}
}

func (g *generator) between(from, to time.Duration) int64 {
	return from.Milliseconds() + g.rand.Int64N((to - from).Milliseconds())
}

// track sets the fields that people set.
func (g *generator) track(d *Detection) {
	switch g.rand.IntN(10) {
	case 0:
		d.Status = "new"
	case 1:
		d.Status = "open" // undocumented, but real appliances return it
	case 2:
		d.Status, d.Assignee = "in_progress", g.person()
	case 3:
		d.Status, d.Resolution = "closed", "action_taken"
	}
	if g.rand.IntN(5) == 0 {
		d.TicketID = g.ticket()
	}
}

func (g *generator) person() Text {
	return []Text{"ada", "grace", "linus", "radia.p", "edsger"}[g.rand.IntN(5)]
}

func (g *generator) ticket() TicketID {
	n := 1000 + g.rand.IntN(9000)
	switch g.rand.IntN(3) {
	case 0:
		return TicketID{ID: fmt.Sprint(n), Numeric: true}
	case 1:
		return TicketID{ID: fmt.Sprint(n)}
	}
	return TicketID{ID: fmt.Sprintf("SEC-%d", n)}
}

func (g *generator) properties(k kind) map[string]any {
	switch g.rand.IntN(4) {
	case 0:
		return map[string]any{}
	case 1:
		return map[string]any{"client_port": 1024 + g.rand.IntN(60000), "server_port": 443, "tool": k.name}
	case 2:
		return map[string]any{"ports": []string{fmt.Sprintf("SSH:%d", 2000+g.rand.IntN(8000)), "SSH:22"}}
	}
	return map[string]any{
		"peers":   map[string]any{"type": "ipaddr", "value": []string{g.address(true), g.address(true)}},
		"version": "TLSv1.0",
	}
}

func (g *generator) participant(i int, applianceID int64) Participant {
	g.members++
	p := Participant{ID: g.members, Role: "victim", ObjectType: "device", ObjectID: applianceID<<32 + 1 + g.rand.Int64N(500)}
	if i == 0 {
		p.Role = "offender"
	}
	p.External = i > 0 && g.rand.IntN(3) == 0
	if p.External {
		p.ObjectType = "ipaddr"
	}
	p.ObjectValue = g.address(p.External)
	if g.rand.IntN(4) == 0 {
		return p // like older payloads, without names
	}
	p.ScannerService, p.Username = Null, Null
	p.Endpoint = []Text{"client", "server", "sender", "receiver", Null}[g.rand.IntN(5)]
	if g.rand.IntN(2) == 0 {
		p.Hostname = Text(fmt.Sprintf("host%d.corp.example", p.ObjectID&0xffff))
	}
	if g.rand.IntN(5) == 0 {
		p.Username = g.person()
	}
	if g.rand.IntN(20) == 0 {
		p.ScannerService = "inventory-scan"
	}
	return p
}

func (g *generator) address(external bool) string {
	if external {
		return fmt.Sprintf("203.0.113.%d", 1+g.rand.IntN(254))
	}
	return fmt.Sprintf("10.%d.%d.%d", g.rand.IntN(8), g.rand.IntN(256), 1+g.rand.IntN(254))
}

// describe returns Markdown with links, long enough for the configured size.
func (g *generator) describe(k kind, d *Detection) string {
	base := ""
	if g.rand.IntN(2) == 0 {
		base = "https://" + g.host
	}
	device := fmt.Sprintf("%016x", g.rand.Uint64())
	var b strings.Builder
	fmt.Fprintf(&b, "[Device %s](%s#/metrics/devices/%s.%s/overview?from=%d&interval_type=DT&until=%d) %s",
		device, base, "0123456789abcdef0123456789abcdef", device, d.StartTime/1000, d.UpdateTime/1000, k.text)
	b.WriteString("\n\nSeen along with it:\n")

	const otherFields = 650 // the approximate size of the other fields
	taken := otherFields + b.Len() + 190*len(d.Participants) + 110*(len(d.MitreTactics)+len(d.MitreTechniques))
	wanted := g.size*3/4 + g.rand.IntN(g.size/2)
	for n := wanted - taken; n > 0; {
		before := b.Len()
		fmt.Fprintf(&b, "* %s, port %d, %d requests, \"%x\"\n", g.address(false), 1+g.rand.IntN(65535), g.rand.IntN(100000), g.rand.Uint32())
		n -= b.Len() - before + 3 // escapes
	}
	return b.String()
}

// kind contains the common properties of the detections of a type.
type kind struct {
	name, title string
	categories  []string
	risk        int // 0: none, as for performance detections
	text        string
	tactics     []Mitre
	techniques  []Mitre
}

func tactic(id, name string) Mitre {
	return Mitre{ID: id, Name: name, URL: "https://attack.mitre.org/tactics/" + id}
}

func technique(id, name string, legacy ...string) Mitre {
	return Mitre{ID: id, Name: name, URL: "https://attack.mitre.org/techniques/" + id, LegacyIDs: legacy}
}

// catalog lists the types of generated detections.
func catalog() []kind {
	discovery := tactic("TA0007", "Discovery")
	lateral := tactic("TA0008", "Lateral Movement")
	command := tactic("TA0011", "Command and Control")
	credential := tactic("TA0006", "Credential Access")
	exfiltration := tactic("TA0010", "Exfiltration")
	impact := tactic("TA0040", "Impact")
	return []kind{
		{"rare_ssh_port", "SSH on an Unusual Port", []string{"sec", "sec.command", "sec.attack"}, 60,
			"opened SSH sessions on a port that few devices here use for SSH.",
			[]Mitre{lateral, command}, []Mitre{technique("T1021", "Remote Services", "T1021"), technique("T1571", "Non-Standard Port", "T1065")}},
		{"dns_tunnel", "DNS Tunnel", []string{"sec", "sec.command", "sec.attack"}, 78,
			"asked for many long names below one domain, which can carry data out in DNS queries.",
			[]Mitre{command}, []Mitre{technique("T1071", "Application Layer Protocol", "T1071"), technique("T1572", "Protocol Tunneling")}},
		{"icmp_tunnel", "ICMP Tunnel", []string{"sec", "sec.command"}, 61,
			"exchanged ICMP messages with payloads that never repeat, more than it ever did before.",
			[]Mitre{command}, []Mitre{technique("T1095", "Non-Application Layer Protocol", "T1094", "T1095")}},
		{"port_scan", "Port Scan", []string{"sec", "sec.recon", "sec.attack"}, 45,
			"tried a long list of ports on hosts that it does not talk to otherwise.",
			[]Mitre{discovery}, []Mitre{technique("T1046", "Network Service Discovery", "T1046")}},
		{"ldap_enumeration", "LDAP Enumeration", []string{"sec", "sec.recon"}, 52,
			"read large parts of the directory within a few minutes.",
			[]Mitre{discovery}, []Mitre{technique("T1087", "Account Discovery", "T1087")}},
		{"ssh_brute_force", "SSH Brute Force", []string{"sec", "sec.exploit", "sec.attack"}, 65,
			"failed to sign in over SSH again and again, and then succeeded once.",
			[]Mitre{credential}, []Mitre{technique("T1110", "Brute Force", "T1110")}},
		{"kerberoasting", "Kerberos Tickets for Offline Guessing", []string{"sec", "sec.exploit", "sec.lateral"}, 83,
			"asked for service tickets with weak encryption for many accounts.",
			[]Mitre{credential}, []Mitre{technique("T1558", "Steal or Forge Kerberos Tickets", "T1208")}},
		{"smb_file_encryption", "Ransomware Activity", []string{"sec", "sec.action", "sec.ransomware", "sec.attack"}, 99,
			"rewrote many files on a share and gave them a new extension.",
			[]Mitre{impact}, []Mitre{technique("T1486", "Data Encrypted for Impact", "T1486")}},
		{"data_exfiltration", "Data Exfiltration", []string{"sec", "sec.exfil", "sec.attack"}, 88,
			"sent far more to an external host than it does on other days.",
			[]Mitre{exfiltration}, []Mitre{technique("T1048", "Exfiltration Over Alternative Protocol", "T1048")}},
		{"crypto_mining", "Cryptocurrency Mining", []string{"sec", "sec.cryptomining"}, 55,
			"spoke a mining protocol with a pool outside.",
			[]Mitre{impact}, []Mitre{technique("T1496", "Resource Hijacking", "T1496")}},
		{"botnet_beacon", "Regular Beacon to a Suspicious Host", []string{"sec", "sec.botnet", "sec.command"}, 91,
			"calls an external host at intervals that hardly vary.",
			[]Mitre{command}, []Mitre{technique("T1071", "Application Layer Protocol", "T1071")}},
		{"syn_flood", "SYN Flood", []string{"sec", "sec.dos", "sec.attack"}, 70,
			"received connection attempts that are never completed.",
			[]Mitre{impact}, []Mitre{technique("T1498", "Network Denial of Service")}},
		{"psexec_remote_service", "Remote Service Created", []string{"sec", "sec.lateral", "sec.attack"}, 74,
			"created a service on another host and started it.",
			[]Mitre{lateral}, []Mitre{technique("T1569", "System Services", "T1035")}},
		{"weak_cipher_individual", "Weak Cipher Suite", []string{"sec", "sec.hardening"}, 30,
			"agreed on a cipher suite that should no longer be in use.", nil, nil},
		{"expiring_cert_individual", "Certificate About to Expire", []string{"sec", "sec.hardening"}, 15,
			"presented a certificate that ends within days.", nil, nil},
		{"hacking_tools", "Visit to a Hacking Tool's Site", []string{"sec", "sec.caution"}, 48,
			"connected to a site that distributes tools of attackers.", nil, nil},
		{"custom.jump_host_bypass", "Jump Host Bypassed", []string{"sec", "sec.caution"}, 40,
			"reached a server directly that is to be reached through the jump host.", nil, nil},
		{"custom.printer_talks_out", "Printer Talks to the Internet", []string{"sec", "sec.hardening"}, 25,
			"is a printer and opened connections to the Internet.", nil, nil},
		{"db_server_errors", "Database Errors", []string{"perf", "perf.db"}, 0,
			"answered an unusual share of its queries with errors.", nil, nil},
		{"http_slow_server", "Slow Web Server", []string{"perf", "perf.web"}, 0,
			"took much longer than usual for its answers.", nil, nil},
		{"tcp_zero_windows", "Receive Windows Full", []string{"perf", "perf.network"}, 0,
			"often asked its peers to stop sending.", nil, nil},
		{"kerberos_auth_errors", "Authentication Errors", []string{"perf", "perf.auth"}, 0,
			"refused many more sign-ins than usual.", nil, nil},
		{"nfs_latency", "Slow Storage", []string{"perf", "perf.storage"}, 0,
			"served files with a latency well above its baseline.", nil, nil},
	}
}
