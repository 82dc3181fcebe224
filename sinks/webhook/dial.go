package webhook

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// awsMetadata is where EC2 keeps an instance's credentials by IPv6. By IPv4 all
// clouds do so at link-local addresses.
var awsMetadata = netip.MustParseAddr("fd00:ec2::254")

// newDialer dials link-local addresses only where that is allowed: a name that leads
// there, by mistake or by the hand of whoever owns it, would have events go, and
// answers come, where a machine's credentials are.
func newDialer(allowLinkLocal bool) *net.Dialer {
	if allowLinkLocal {
		return &net.Dialer{}
	}
	// Control sees what a name resolved to, just before it is connected to: there is
	// no time in between to change it.
	return &net.Dialer{Control: refuseLinkLocal}
}

func refuseLinkLocal(_, address string, _ syscall.RawConn) error {
	where, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if a := where.Addr().Unmap(); a.IsLinkLocalUnicast() || a.WithZone("") == awsMetadata {
		return &linkLocalError{a}
	}
	return nil
}

// linkLocalError is an address that is not dialled.
type linkLocalError struct{ address netip.Addr }

func (e *linkLocalError) Error() string {
	return fmt.Sprintf("%s is a link-local or metadata address, which is not connected to unless allow_link_local is true", e.address)
}
