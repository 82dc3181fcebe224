package pipeline

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/internal/admin"
)

// lifetimes holds the parent contexts of parts.
type lifetimes struct {
	sources context.Context // cancelled when Run must stop
	sinks   context.Context // never cancelled; such parts are stopped one by one
}

// command is a function that Run calls between start and stop, one at a time.
type command struct {
	name string // for log and error messages, such as "a reload"
	do   func(lifetimes)
}

// runningCommand is a command that Run has started.
type runningCommand struct {
	name string
	done chan struct{}
}

// await waits until the command is done or until the given time. It returns the
// command's name if it is not done by then.
func (c *runningCommand) await(until time.Time) []string {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
		return []string{c.name}
	}
}

// runCommands runs commands one by one until ctx is cancelled. It returns the command
// that is still running then, or nil.
func (p *Pipeline) runCommands(ctx context.Context, l lifetimes) *runningCommand {
	for {
		select {
		case <-ctx.Done():
			return nil
		case cmd := <-p.commands:
			c := &runningCommand{cmd.name, make(chan struct{})}
			go func() {
				defer close(c.done)
				cmd.do(l)
			}()
			select {
			case <-c.done:
			case <-ctx.Done():
				return c
			}
		}
	}
}

var errStopping = fmt.Errorf("%w: it is stopping", admin.ErrNotRunning)

// submit has Run call do, which may start, stop, pause or resume parts; Run never calls
// two commands at once. submit returns when do has returned, even if ctx is cancelled
// meanwhile. It returns admin.ErrNotRunning if Run is about to return, and
// admin.ErrBusy if another command takes longer than a reload may take.
func (p *Pipeline) submit(ctx context.Context, name string, do func(lifetimes) error) error {
	result := make(chan error, 1)
	var patience time.Duration // how long a reload may take
	if all := p.current.Load(); all != nil {
		patience = time.Duration(all.config.ShutdownTimeout)
	}
	timer := time.NewTimer(patience + 10*time.Second)
	defer timer.Stop()
	select {
	case p.commands <- command{name, func(l lifetimes) { result <- do(l) }}:
	case <-p.ended:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%w: a reload or another command has been running for too long; try again, or restart the bridge", admin.ErrBusy)
	}
	select {
	case err := <-result:
		return err
	case <-p.ended:
	}
	select {
	case err := <-result:
		return err
	default:
		return errStopping
	}
}
