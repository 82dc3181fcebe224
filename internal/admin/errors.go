package admin

import "errors"

// ErrUnknown is returned if an appliance, stream, sink or dead letter does not exist.
// It is wrapped with the names that do.
var ErrUnknown = errors.New("unknown")

// ErrConfiguration is returned by Client.Reload if the configuration is invalid, or cannot be
// applied while the bridge runs. The error says why.
var ErrConfiguration = errors.New("invalid configuration")

// ErrBusy is returned if an operation that runs one at a time is already running.
var ErrBusy = errors.New("the bridge is busy")

// ErrUnavailable is returned if the member of a cluster that has to carry out an operation
// cannot be asked now.
var ErrUnavailable = errors.New("not available now; try again in a few seconds")

// ErrToken is returned by a Client if the bridge requires a token and the client has none
// or a wrong one.
var ErrToken = errors.New("the bridge requires a token")

// ErrNotRunning is returned if an operation requires a running bridge.
var ErrNotRunning = errors.New("the bridge does not run")
