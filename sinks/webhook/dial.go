package webhook

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// metadata are the addresses, beside link-local ones, where clouds keep the
// credentials of machines: those of AWS, Google and Alibaba.
var metadata = [...]netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"),
	netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"),
}

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
	a := where.Addr().Unmap().WithZone("")
	if a.IsLinkLocalUnicast() || slices.ContainsFunc(metadata[:], func(p netip.Prefix) bool { return p.Contains(a) }) {
		return &linkLocalError{a}
	}
	return nil
}

// linkLocalError is an address that is not dialled.
type linkLocalError struct{ address netip.Addr }

func (e *linkLocalError) Error() string {
	return fmt.Sprintf("%s is a link-local or metadata address, which is not connected to unless allow_link_local is true", e.address)
}
