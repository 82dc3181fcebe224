package webhook

import (
	"errors"
	"net/netip"
	"testing"

	"ndrbridge/test/assert"
)

func TestAddressesThatAreNotDialled(t *testing.T) {
	for _, test := range []struct {
		name    string
		refused bool
		in      []string
	}{
		{"link-local addresses are refused", true, []string{"169.254.169.254", "169.254.170.2", "::ffff:169.254.169.254", "fe80::1%eth0", "224.0.0.251", "ff02::1"}},
		{"metadata at other addresses is refused", true, []string{"100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"}},
		{"an IPv4 address within an IPv6 address is refused alike", true, []string{
			"64:ff9b::169.254.169.254", "64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:aa:a9:fea9:fe00:0", "64:ff9b:1:a9:fe:a9fe::",
			"2002:a9fe:a9fe::1", "::169.254.169.254", "64:ff9b::100.100.100.200"}},
		{"all others are dialled", false, []string{
			"127.0.0.1", "::1", "::", "0.0.0.0", "10.0.0.1", "192.0.2.1", "2001:db8::1", "fd00::1", "100.100.100.201", "64:ff9b::192.0.2.1", "2002:c000:201::1", "169.253.0.1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, text := range test.in {
				err := refuseLinkLocal("tcp", netip.AddrPortFrom(netip.MustParseAddr(text), 443).String(), nil)
				_, refused := errors.AsType[*linkLocalError](err)
				assert.Equal(t, refused, test.refused, text, err)
			}
		})
	}
}
