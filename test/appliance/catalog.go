package appliance

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
