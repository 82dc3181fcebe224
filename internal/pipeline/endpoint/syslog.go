package endpoint

import (
	"ndrbridge/configs"
	"ndrbridge/sinks"
	"ndrbridge/sinks/syslog"
)

func openSyslog(s configs.Syslog, o SinkOptions) (sinks.Sink, error) {
	to := syslog.Options{
		Address: s.Address, Network: s.Network, Facility: s.Facility, AppName: s.AppName, Hostname: s.Hostname,
		Framing: s.Framing, MaxBytes: int(s.MaxBytes), Lease: o.Lease, Log: o.Log,
	}
	if s.Network == configs.SyslogTLS {
		var settings configs.TLS
		if s.TLS != nil {
			settings = *s.TLS
		}
		var err error
		if to.TLS, err = TLS(settings); err != nil {
			return nil, err
		}
	}
	return syslog.New(to)
}
