package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"ndrbridge/internal/linklocal"
)

// newDialer dials link-local and metadata addresses only where that is allowed: a
// name that leads there, by mistake or by the hand of whoever owns it, would have
// events go, and answers come, where a machine's credentials are.
func newDialer(allowLinkLocal bool) *net.Dialer {
	if allowLinkLocal {
		return &net.Dialer{}
	}
	return &net.Dialer{Control: refuseLinkLocal}
}

func refuseLinkLocal(network, address string, c syscall.RawConn) error {
	err := linklocal.Refuse(network, address, c)
	if refused, ok := errors.AsType[*linklocal.Error](err); ok {
		return &linkLocalError{refused.Address}
	}
	return err
}

// linkLocalError is an address that is not dialled.
type linkLocalError struct{ address netip.Addr }

func (e *linkLocalError) Error() string {
	return fmt.Sprintf("%s is a link-local or metadata address, which is not connected to unless allow_link_local is true", e.address)
}

// Advice is what a person can do.
func (e *linkLocalError) Advice() string {
	return "correct url; set allow_link_local only for an address that you know"
}
