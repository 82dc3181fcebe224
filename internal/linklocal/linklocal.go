// Package linklocal refuses connections to link-local and cloud metadata addresses, which
// serve a machine's credentials and which a DNS answer must not lead to.
package linklocal

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// metadata are the addresses of cloud metadata services that are not link-local.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure's host
	netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon's services of a machine
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
}

// translated are the prefixes of IPv6 addresses that contain an IPv4 address, to which
// a router or the machine itself translates them, and the indexes of its bytes.
var translated = []struct {
	prefix netip.Prefix
	bytes  [4]int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), [4]int{12, 13, 14, 15}},   // NAT64 (RFC 6052)
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{12, 13, 14, 15}}, // a network's own NAT64 (RFC 8215),
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{9, 10, 11, 12}},  // with prefixes of 96, 64,
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{7, 9, 10, 11}},   // 56
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{6, 7, 9, 10}},    // and 48 bits
	{netip.MustParsePrefix("2002::/16"), [4]int{2, 3, 4, 5}},          // 6to4 (RFC 3056)
	{netip.MustParsePrefix("::/96"), [4]int{12, 13, 14, 15}},          // IPv4-compatible (RFC 4291, section 2.5.5.1)
}

// Error reports an address that is refused.
type Error struct{ Address netip.Addr }

func (e *Error) Error() string {
	return fmt.Sprintf("%s is a link-local or metadata address, which is not connected to", e.Address)
}

// Refuse implements net.Dialer.Control. It returns an *Error for link-local and
// metadata addresses. It checks the resolved address immediately before the connection,
// so the name cannot resolve to another one in between.
func Refuse(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	a := target.Addr().WithZone("").Unmap()
	refused := isLinkLocal(a)
	for _, t := range translated {
		if t.prefix.Contains(a) {
			b := a.As16()
			refused = refused || isLinkLocal(netip.AddrFrom4([4]byte{b[t.bytes[0]], b[t.bytes[1]], b[t.bytes[2]], b[t.bytes[3]]}))
		}
	}
	if refused {
		return &Error{target.Addr().Unmap()}
	}
	return nil
}

func isLinkLocal(a netip.Addr) bool {
	return a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() ||
		slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(a) })
}
