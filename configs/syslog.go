package configs

// Values of Syslog.Network.
const (
	SyslogTLS = "tls"
	SyslogTCP = "tcp"
	syslogUDP = "udp"
)

// maxDatagram is the size of the largest message that fits into a UDP datagram.
const maxDatagram = 65507

// Syslog configures delivery to a syslog receiver, as messages of RFC 5424.
//
//	sinks:
//	  - name: siem
//	    syslog: {address: "siem.example:6514", tls: {ca_file: /etc/ndrbridge/siem-ca.pem}}
//	    format: cef
type Syslog struct {
	// Address is the host and port of the receiver. Usual ports are 6514 for TLS and 514
	// for TCP and UDP.
	Address string `yaml:"address" required:"true" form:"receiver"`
	// Network is tls, tcp or udp. Over UDP, nothing shows whether a message arrives.
	Network string `yaml:"network" default:"tls" oneof:"tls,tcp,udp"`
	// TLS configures TLS, for which [Syslog.Network] must be tls.
	TLS *TLS `yaml:"tls" with:"network=tls"`
	// Facility is the facility of the messages.
	Facility string `yaml:"facility" default:"local0" oneof:"kern,user,mail,daemon,auth,syslog,lpr,news,uucp,cron,authpriv,ftp,local0,local1,local2,local3,local4,local5,local6,local7"`
	// AppName is the name of the application in the messages: up to 48 printable ASCII
	// characters.
	AppName string `yaml:"app_name" default:"ndrbridge" required:"true" form:"app_name"`
	// Hostname is the name of the host in the messages: up to 255 printable ASCII
	// characters. Absent: the name of the machine that the bridge runs on.
	Hostname string `yaml:"hostname" form:"hostname"`
	// Framing separates the messages on a connection: octet_counting, the length in front
	// of each, as TLS requires it; or newline, a line feed after each, which some
	// receivers expect over TCP. It does not concern UDP.
	Framing string `yaml:"framing" default:"octet_counting" oneof:"octet_counting,newline"`
	// MaxBytes is the size of the largest message that the receiver takes. A larger event
	// is dead-lettered; a receiver would cut it off without a word. Over UDP, it is at most
	// 65507B, the largest datagram.
	MaxBytes Size `yaml:"max_bytes" default:"65507B" above:"0"`
}

func (s *Syslog) modes() []string { return []string{"structured"} }

func (s *Syslog) place() string { return s.Address }

func (s *Syslog) summary() string { return "syslog " + s.Address + ", over " + s.Network }

func (s *Syslog) check(c checks, path string) {
	if s.Network == syslogUDP && s.MaxBytes > maxDatagram {
		c.wrong(path+".max_bytes", "is %s, which no UDP datagram can hold; write at most %dB", s.MaxBytes, maxDatagram)
	}
}
