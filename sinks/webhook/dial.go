package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"ndrbridge/internal/linklocal"
)

// newDialer returns a dialer that connects to link-local and metadata addresses only if
// allowed. Otherwise a host name that resolves to one, by mistake or by its owner's
// intent, would send events to, and show answers from, the service that holds the
// machine's credentials.
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

// linkLocalError reports an address that is not connected to.
type linkLocalError struct{ address netip.Addr }

func (e *linkLocalError) Error() string {
	return fmt.Sprintf("%s is a link-local or metadata address, which is not connected to unless allow_link_local is true", e.address)
}

// Advice returns what the user can do.
func (e *linkLocalError) Advice() string {
	return "correct url; set allow_link_local only for an address that you know"
}
