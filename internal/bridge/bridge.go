// Package bridge is the process: it serves the admin interface, runs a pipeline, or that
// of the owner of a cluster's log, reloads the configuration, and stops within a deadline.
package bridge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/pipeline"
)

// Options configure a Bridge beyond its configuration file.
type Options struct {
	Version string
	// Revision is the commit that the program was built from, for ndrbridge_build_info.
	Revision string
	// Log is the result of NewLog. The level of any other logger is never changed.
	Log    *slog.Logger
	Stdout io.Writer // used by file sinks with the path -
	// Load reads the configuration again for Reload. If it is nil, Reload fails.
	Load func() (*configs.Config, error)
	// Files returns the paths of the files that Load reads. If it is nil, Watch watches
	// only the files that the configuration names.
	Files func() ([]string, error)
	// Probe returns an error unless this machine reaches every appliance and every sink of a
	// configuration. It may be nil: then an owner that reaches none of them does not hand over.
	Probe func(ctx context.Context, config *configs.Config) error
	// Cluster changes the options of a member of a cluster before it joins, in tests; nil:
	// nothing.
	Cluster func(*cluster.Options)
}

// Bridge is the service. New makes it, Run runs it.
type Bridge struct {
	load      func() (*configs.Config, error)
	sources   func() ([]string, error)
	log       *slog.Logger
	registry  *prometheus.Registry
	work      work
	owner     func() (url string, self bool, why string) // see admin.Options.Owner; nil: there is no cluster
	reloading chan struct{}                              // semaphore
	last      *lastReload
	watched   atomic.Pointer[watched]
	listener  net.Listener
	admin     *http.Server
	serving   sync.WaitGroup // waits for the goroutine that serves admin
}

// pageBudget limits the total bytes of pages that all sources hold at once. A page
// counts until its events are committed; processing it takes a few times its size.
const pageBudget = 16 << 20

// New opens the state and makes every part, without contacting an appliance or a sink's
// target. Its error includes what to do. The caller must then call Run or Close.
//
// If ctx is cancelled, New has shutdown_timeout left to return. After that it returns
// an error and abandons the work in progress: the process should exit.
func New(ctx context.Context, config *configs.Config, o Options) (*Bridge, error) {
	b := newBridge(config, o)
	if err := b.listen(config); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	made := make(chan error, 1)
	go func() {
		err := b.work.Open(ctx, config)
		if err != nil {
			err = errors.Join(err, b.Close())
		}
		made <- err
	}()
	late, expire := context.WithCancel(context.Background())
	defer expire()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Duration(config.ShutdownTimeout), expire) })()
	select {
	case err := <-made:
		if err != nil {
			return nil, err
		}
		return b, nil
	case <-late.Done():
		return nil, fmt.Errorf("start-up did not finish within shutdown_timeout (%s) after the signal and was abandoned: "+
			"it was opening %s and making the parts of the configuration; the next start continues from the same state", config.ShutdownTimeout, config.State)
	}
}

// newBridge returns a Bridge without state and parts.
func newBridge(config *configs.Config, o Options) *Bridge {
	b := &Bridge{load: o.Load, sources: o.Files, log: o.Log, registry: prometheus.NewRegistry(), reloading: make(chan struct{}, 1)}
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(o))
	b.watched.Store(&watched{named: config.ReloadedFiles()})
	b.last = newLastReload(b.registry)
	of := pipeline.Options{
		Version: o.Version, Log: o.Log, Stdout: o.Stdout, Started: time.Now(),
		Registerer: b.registry, Pages: appliance.NewBudget(pageBudget),
		Reload: func(ctx context.Context) (admin.Reloaded, error) { return b.Reload(ctx, admin.TriggerAPI) },
	}
	if config.Cluster.Enabled() {
		m := newMember(of, o.Probe, o.Cluster)
		b.work, b.owner = m, m.Owner
	} else {
		b.work = pipeline.New(of)
	}
	return b
}

// buildInfo returns the metric of the program's version.
func buildInfo(o Options) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ndrbridge_build_info", Help: "Always 1; the labels say what the program was built from.",
		ConstLabels: prometheus.Labels{"version": o.Version, "revision": o.Revision, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}

// Try makes every part of a configuration as New does and discards it, without opening
// the state. It listens briefly on the address of the admin interface, and contacts nothing. It
// returns a *pipeline.PartError for each part that cannot be made.
func Try(ctx context.Context, config *configs.Config, version string) (failed []error) {
	b := newBridge(config, Options{Version: version, Log: slog.New(slog.DiscardHandler), Stdout: io.Discard})
	listener, err := openAdmin(config.Admin, b.log)
	if err != nil {
		failed = append(failed, err)
	} else {
		_ = listener.Close()
	}
	failed = append(failed, b.work.Try(ctx, config)...)
	_ = b.Close() // nothing has run
	return failed
}

// adminListener is the address of the admin interface with the secrets that callers must show.
type adminListener struct {
	net.Listener
	Token, ReadToken string
	TLS              *tls.Config // nil: HTTP
}

// openAdmin reads the tokens and the certificate of the admin interface and listens on its
// address. The error is a *pipeline.PartError.
func openAdmin(a configs.Admin, log *slog.Logger) (_ *adminListener, err error) {
	l := new(adminListener)
	if l.Token, err = a.Token.Read(); err != nil {
		return nil, &pipeline.PartError{Part: "admin.token", Err: err}
	}
	if l.ReadToken, err = a.ReadToken.Read(); err != nil {
		return nil, &pipeline.PartError{Part: "admin.read_token", Err: err}
	}
	if a.TLS.Enabled() {
		if l.TLS, err = admin.TLS(a.TLS).Server(log); err != nil {
			return nil, &pipeline.PartError{Part: "admin.tls", Err: err}
		}
	}
	if l.Listener, err = net.Listen("tcp", a.Listen); err != nil {
		advised := &failure.Advised{Err: err, To: "choose another address"}
		if errors.Is(err, syscall.EADDRINUSE) {
			advised = &failure.Advised{Err: fmt.Errorf("%s: %w", a.Listen, syscall.EADDRINUSE), To: "another bridge may be running; stop what listens there, or choose another address"}
		}
		return nil, &pipeline.PartError{Part: "admin.listen", Err: advised}
	}
	return l, nil
}

// listen starts to serve the admin interface. It is called before the state is opened,
// because opening a large state takes a while and health checks must be answered
// meanwhile.
func (b *Bridge) listen(config *configs.Config) error {
	a := config.Admin
	listener, err := openAdmin(a, b.log)
	if err != nil {
		return err
	}
	b.listener = listener
	o := admin.Options{
		Token: listener.Token, ReadToken: listener.ReadToken, ClientCertificates: a.TLS.ClientCAFile != "",
		NotReady: b.work.NotReady, Metrics: b.registry, Guesses: admin.NewGuesses(b.registry, b.log),
		Control: b.work.Control, Tickets: b.work.Tickets, Reload: b.last.Load,
	}
	if config.Cluster.Enabled() {
		o.Member, o.Owner, o.TLS = config.Cluster.Member, b.owner, admin.TLS(a.TLS)
	}
	b.admin = admin.NewServer(o)
	b.admin.TLSConfig = listener.TLS
	// What callers did wrong, such as a failed handshake, is of interest only to them.
	b.admin.ErrorLog = slog.NewLogLogger(b.log.Handler(), slog.LevelDebug)
	serve := b.admin.Serve
	if listener.TLS != nil {
		serve = func(l net.Listener) error { return b.admin.ServeTLS(l, "", "") }
	}
	b.serving.Go(func() {
		if err := serve(b.listener); !errors.Is(err, http.ErrServerClosed) {
			b.log.Error("the admin interface stopped; polling and delivery continue", "error", err)
		}
	})
	return nil
}

// AdminAddress returns the address that the admin interface listens on.
func (b *Bridge) AdminAddress() string { return b.listener.Addr().String() }

// adminURL returns the URL of the admin interface on this machine. The host is that of
// admin.listen: the listener reports [::] for 0.0.0.0.
func (b *Bridge) adminURL() string {
	a := b.work.Config().Admin
	host, _, _ := net.SplitHostPort(a.Listen)
	_, port, _ := net.SplitHostPort(b.AdminAddress())
	return a.Scheme() + "://" + admin.DialAddress(net.JoinHostPort(host, port))
}

// ShutdownTimeout returns shutdown_timeout of the current configuration, which a reload
// may change.
func (b *Bridge) ShutdownTimeout() time.Duration {
	return time.Duration(b.work.Config().ShutdownTimeout)
}

// Run does the work until ctx is cancelled, then stops it within shutdown_timeout.
// At the end of shutdown_timeout remaining work is cut short; anything that still runs
// about a second later is abandoned and named in the error, and the process should
// exit. Run also stops, with an error, if the state becomes unusable. It closes the
// bridge before it returns.
func (b *Bridge) Run(ctx context.Context) error {
	stopped := b.work.Run(ctx, func(attributes ...any) {
		b.log.Info("running", append([]any{"admin", b.adminURL()}, attributes...)...)
	})
	b.close(stopped)
	err := errors.Join(stopped.Err, b.work.Err())
	if len(stopped.Left) > 0 {
		err = errors.Join(fmt.Errorf("these did not stop within shutdown_timeout (%s) and were abandoned: %s; unacknowledged events are delivered again at the next start",
			stopped.Timeout, strings.Join(stopped.Left, ", ")), err)
	}
	if err == nil {
		b.log.Info("stopped")
	}
	return err
}

// Close closes a Bridge that never ran. Run closes it otherwise.
func (b *Bridge) Close() error {
	s := pipeline.NewStop(closeTimeout)
	b.close(s)
	if len(s.Left) > 0 {
		return errors.Join(fmt.Errorf("failed to close in time: %s", strings.Join(s.Left, ", ")), s.Err)
	}
	return s.Err
}

// close closes everything.
func (b *Bridge) close(s *pipeline.Stop) {
	if b.admin != nil {
		s.Close("the admin interface", func() error {
			err := b.admin.Close()
			b.serving.Wait()
			return err
		})
	}
	b.work.Close(s)
}
