package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/fileaccess"
	"ndrbridge/internal/pipeline"
)

// helpOfControl is the last paragraph in the help of every command that acts on a bridge.
const helpOfControl = `The command acts on the bridge that runs with this configuration, through its admin API
at admin.listen, or directly on the state file if no bridge is running. In a cluster, the
member must be running; it passes on to the owner of the log what it cannot do itself. To
act on a bridge without its configuration, give its address with --admin and, if it requires
a token, --token-file; for an https address whose certificate the system does not trust,
also --ca-file.`

// withControl adds the flags that select the bridge to act on.
func (c *command) withControl(cmd *cobra.Command) *cobra.Command {
	cmd.Long += "\n\n" + helpOfControl
	cmd.Flags().StringVar(&c.adminURL, "admin", "", "the address of a running bridge's admin API, such as http://127.0.0.1:9600")
	cmd.Flags().StringVar(&c.tokenFile, "token-file", "", "a file with the token of the admin API; requires --admin")
	c.givenTLS.addFlags(cmd.Flags())
	return c.withConfig(cmd)
}

// acting calls act with the control of the running bridge, or of its state if no bridge
// is running. If the configuration has errors, they are reported, and act is called if the
// bridge can be found nevertheless.
func (c *command) acting(ctx context.Context, act func(*admin.Client) error) error {
	return c.actingDespite(ctx, act, c.reportInvalid, c.actingOffline)
}

// reportInvalid reports the errors in a configuration with which the bridge at an address does
// not run.
func (c *command) reportInvalid(invalid error, address string) {
	fmt.Fprintf(c.stderr, "%v\nthe configuration is invalid, and the command acts on the bridge at %s, which runs with an earlier one\n", invalid, address)
}

// offline carries out a command if the bridge of a configuration does not answer.
type offline func(config *configs.Config, other answering, act func(*admin.Client) error) error

// actingDespite is acting, with the function that reports errors in the configuration, and the one
// that is called if no bridge is running.
func (c *command) actingDespite(ctx context.Context, act func(*admin.Client) error, report func(invalid error, address string), without offline) error {
	if c.adminURL != "" {
		return c.actingOnGiven(act)
	}
	config, err := c.actingConfig()
	if err != nil {
		if invalid, ok := errors.AsType[configs.Errors](err); ok {
			if client, address := c.findDespite(ctx); client != nil {
				defer client.Close()
				report(invalid, address)
				return c.tokenAdvice(act(client))
			}
		}
		return err
	}
	if config.Cluster.Enabled() {
		err := c.actingOnMember(config, act)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		return without(config, answering{err: err}, act)
	}
	other, err := c.findBridge(ctx, config)
	if err != nil {
		return err
	}
	if other.client != nil {
		defer other.client.Close()
		return c.tokenAdvice(act(other.client))
	}
	return without(config, other, act)
}

// actingOffline calls act with the control of the state of a configuration, which for a cluster
// only a running member has.
func (c *command) actingOffline(config *configs.Config, other answering, act func(*admin.Client) error) (err error) {
	if config.Cluster.Enabled() {
		return other.err
	}
	offline, err := pipeline.OpenOffline(config, version, slog.New(slog.DiscardHandler))
	if err != nil {
		return noBridge(config, other, err)
	}
	defer commandline.Close(offline.Close, &err)
	if other.answer != "" {
		fmt.Fprintf(c.stderr, "%s; the command acts on %s directly\n", other.answer, config.State)
	}
	return act(offline.Client)
}

// actingOnGiven calls act with a client of the bridge at --admin.
func (c *command) actingOnGiven(act func(*admin.Client) error) error {
	client, err := c.givenClient()
	if err != nil {
		return err
	}
	defer client.Close()
	return c.tokenAdvice(c.authorityAdvice(act(client)))
}

// actingOnMember calls act with a client of the member of a cluster that runs with the
// configuration.
func (c *command) actingOnMember(config *configs.Config, act func(*admin.Client) error) error {
	client, err := ownClient(config)
	if err != nil {
		return err
	}
	defer client.Close()
	return c.tokenAdvice(notRunning(act(client)))
}

// answering is what answers at admin.listen of a configuration.
type answering struct {
	client *admin.Client // of the bridge that uses the state of the configuration; nil: it does not answer
	// answer describes a bridge that uses another state, or did not return its status
	// because of err; empty: no bridge answers.
	answer string
	err    error
}

// findBridge asks admin.listen of a configuration for the bridge that uses its state.
// Another bridge may listen there, with another configuration.
func (c *command) findBridge(ctx context.Context, config *configs.Config) (answering, error) {
	const wait = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	address := admin.DialAddress(config.Admin.Listen)
	probe, err := admin.NewOwnClient(config.Admin.Listen, "", admin.TLS(config.Admin.TLS))
	if err != nil || !probe.IsBridge(ctx) {
		return answering{}, err
	}
	client, err := ownClient(config)
	if err != nil {
		return answering{}, err
	}
	status, err := client.Status(ctx)
	if err == nil && samePath(status.State.Path, config.State) {
		return answering{client: client}, nil
	}
	client.Close()
	if err != nil {
		err = c.tokenAdvice(err)
		return answering{answer: fmt.Sprintf("the bridge at %s (admin.listen) did not return its status (%v)", address, err), err: err}, nil
	}
	return answering{answer: fmt.Sprintf("the bridge at %s (admin.listen) runs with another configuration: its state is %s", address, terminal.Printable(status.State.Path))}, nil
}

// findDespite returns a client of the running bridge of a configuration that is invalid, and
// its address. The client is nil if the errors are such that the bridge cannot be found, or
// none runs.
func (c *command) findDespite(ctx context.Context) (client *admin.Client, address string) {
	config, err := configs.LoadControl(c.source(), "state", "admin", "cluster")
	if err != nil {
		return nil, ""
	}
	address = admin.DialAddress(config.Admin.Listen)
	if config.Cluster.Enabled() {
		if client, err = ownClient(config); err != nil || !client.IsBridge(ctx) {
			return nil, ""
		}
		return client, address
	}
	found, _ := c.findBridge(ctx, config) // the errors of the configuration matter more
	return found.client, address
}

// samePath reports whether two paths name the same file.
func samePath(a, b string) bool {
	if absolute(a) == absolute(b) {
		return true
	}
	ofA, err := os.Stat(a)
	if err != nil {
		return false
	}
	ofB, err := os.Stat(b)
	return err == nil && os.SameFile(ofA, ofB)
}

// absolute returns the absolute form of a path if there is one.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// noBridge returns the error of a command that found neither the bridge of a
// configuration nor, because of err, its state.
func noBridge(config *configs.Config, other answering, err error) error {
	const advice = "use the configuration that the bridge runs with (--config), or give its address with --admin and its token with --token-file"
	answer := other.answer
	if answer == "" {
		answer = "no bridge answers at " + admin.DialAddress(config.Admin.Listen) + " (admin.listen)"
	}
	switch {
	case errors.Is(err, checkpoint.ErrLocked) && other.err != nil: // most likely by that bridge
		return other.err
	case errors.Is(err, checkpoint.ErrLocked):
		return fmt.Errorf("%s is in use by another process, and %s\nif another command is using the state, wait for it; if admin was changed in the configuration, restart the bridge; otherwise %s", absolute(config.State), answer, advice)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no state at %s, and %s\nstart a bridge with ndrbridge run; or, if one is running, %s", absolute(config.State), answer, advice)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s; %s\nrun the command as the user that the bridge runs as; or, if one is running, %s", err, fileaccess.Describe(config.State), answer, advice)
	}
	return err
}

// tokenAdvice replaces the error of a bridge that requires another token by one that says
// how to give it. It returns other errors as they are.
func (c *command) tokenAdvice(err error) error {
	if !errors.Is(err, admin.ErrToken) {
		return err
	}
	const origin = "that is admin.token, or the content of admin.token_file, of the configuration that the bridge runs with, or NDRBRIDGE_ADMIN_TOKEN of its environment"
	switch {
	case c.adminURL != "" && c.tokenFile == "":
		return fmt.Errorf("the bridge at %s requires a token: give a file that contains it with --token-file; %s", c.adminURL, origin)
	case c.adminURL != "":
		return fmt.Errorf("the bridge at %s refuses the token in %s (--token-file): it must be the bridge's token; %s", c.adminURL, c.tokenFile, origin)
	}
	return errors.New("the bridge refuses the token of this configuration (admin.token, admin.token_file or NDRBRIDGE_ADMIN_TOKEN): " +
		"use the configuration and the environment that the bridge runs with, or give its address with --admin and a file with its token with --token-file; restart the bridge if its token was changed")
}

// authorityAdvice adds to the error of a bridge at --admin whose certificate is not trusted
// how to trust it. It returns other errors as they are.
func (c *command) authorityAdvice(err error) error {
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); !untrusted {
		return err
	}
	if c.givenTLS.caFile != "" {
		return fmt.Errorf("%w; the file of --ca-file must contain its certificate or that of its authority, and the certificate the name or address in --admin", err)
	}
	return fmt.Errorf("%w; give a PEM file with its certificate, or that of its authority, with --ca-file", err)
}

// actingConfig returns the configuration that selects the bridge to act on.
func (c *command) actingConfig() (*configs.Config, error) {
	if err := c.errOnlyGiven(); err != nil {
		return nil, err
	}
	config, err := c.load()
	if err != nil {
		return nil, fmt.Errorf("%w\nto act on a running bridge without its configuration, give its address with --admin and a file with its token with --token-file", err)
	}
	return config, nil
}

// ownClient returns a client of the bridge that runs with the configuration.
func ownClient(config *configs.Config) (*admin.Client, error) {
	token, err := config.Admin.Token.Read()
	if err != nil {
		return nil, fmt.Errorf("admin.token: %w", err)
	}
	return admin.NewOwnClient(config.Admin.Listen, token, admin.TLS(config.Admin.TLS))
}

// notRunning adds advice to the error of a request to a member of a cluster that does not
// run.
func notRunning(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w\nno member of the cluster runs at admin.listen of this configuration: start it, or give the address of another member with --admin", err)
	}
	return err
}
