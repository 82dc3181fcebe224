package natsserver

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// invalidPort is in texts about noPort.
	invalidPort = "address 65536: invalid port"
	// writeFailed is in texts about a failed write. The server stops JetStream only if the disk is full.
	writeFailed = "Critical write error"
	// aboutConnection ends the part of a format that has the address and the number of a connection.
	aboutConnection = " - "
)

// logger is a server.Logger. Whoever can reach the server causes some of its texts, so it limits
// the rate of each kind.
type logger struct {
	server.Logger // nil: Debugf and Tracef are not called
	log           *slog.Logger
	fatal         chan error  // the first error with which the server cannot run
	failed        atomic.Bool // whether a write failed: its stream is not stored until the next start
	kinds         sync.Map    // *rate.Sometimes by format
}

// Errorf implements server.Logger.
func (l *logger) Errorf(format string, values ...any) { l.Warnf(format, values...) }

// Warnf implements server.Logger.
func (l *logger) Warnf(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	for _, expected := range []string{invalidPort, "hostname of solicited routes will not be verified"} { // they are, by mutualTLS
		if strings.Contains(text, expected) {
			return
		}
	}
	if strings.Contains(format, writeFailed) {
		l.failed.Store(true)
	}
	kind, _ := l.kinds.LoadOrStore(format[strings.LastIndex(format, aboutConnection)+1:], &rate.Sometimes{First: 5, Interval: time.Minute})
	kind.(*rate.Sometimes).Do(func() {
		l.log.Warn("the embedded NATS server reported a problem", "problem", fmt.Sprintf("%.1000s", text))
	})
}

// Noticef implements server.Logger.
func (l *logger) Noticef(format string, values ...any) {
	l.log.Debug("embedded NATS server", "message", fmt.Sprintf("%.1000s", fmt.Sprintf(format, values...)))
}

// Fatalf implements server.Logger. The server does not run then, unless it is about the port for
// clients: then it runs without one.
func (l *logger) Fatalf(format string, values ...any) {
	err := fmt.Errorf(format, values...)
	if strings.Contains(err.Error(), invalidPort) {
		return
	}
	select {
	case l.fatal <- err:
	default:
	}
}
