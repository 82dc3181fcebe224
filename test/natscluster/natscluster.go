// Package natscluster runs a cluster of NATS servers with JetStream, each in a process of
// its own that can be killed, for tests and the benchmark.
package natscluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ndrbridge/test/loopback"
)

// Build builds the program of the servers in a folder and returns its path.
func Build(ctx context.Context, folder string) (program string, err error) {
	program = filepath.Join(folder, "natsnode")
	output, err := exec.CommandContext(ctx, "go", "build", "-o", program, "ndrbridge/test/natscluster/node").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the NATS server: %w\n%s", err, output)
	}
	return program, nil
}

// Cluster is a cluster of servers on loopback, which keep their addresses and data when they
// are started again.
type Cluster struct {
	Nodes []*Node

	release func() // gives back the ports
}

// Node is a server of a cluster. It is not safe for concurrent use.
type Node struct {
	Address string // for clients, host:port

	program string
	args    []string
	monitor string
	folder  string
	limit   int64          // of what JetStream stores, in bytes; 0: that of the disk
	command *exec.Cmd      // nil: stopped
	input   io.WriteCloser // the process ends with it
}

// Name returns the name of the nth server of a cluster.
func Name(n int) string { return "n" + strconv.Itoa(n) }

// New returns a cluster of so many servers, none of which runs, with their data in folder.
// route, if not nil, returns the address at which a server connects to another one, whose own
// address it receives.
func New(program, folder string, size int, route func(from, to int, address string) (string, error)) (c *Cluster, err error) {
	const each = 3
	ports, release, err := loopback.Ports(each * size)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	address := func(n, of int) string { return "127.0.0.1:" + strconv.Itoa(ports[n*each+of]) }
	c = &Cluster{release: release}
	for n := range size {
		var routes []string
		for to := range size {
			if to == n {
				continue
			}
			other := address(to, 2)
			if route != nil {
				if other, err = route(n, to, other); err != nil {
					return nil, err
				}
			}
			routes = append(routes, other)
		}
		node := &Node{
			Address: address(n, 0), program: program, monitor: address(n, 1),
			folder: filepath.Join(folder, Name(n)),
		}
		node.args = []string{
			"--name", Name(n), "--folder", node.folder, "--client", node.Address, "--monitor", node.monitor,
			"--route", address(n, 2), "--routes", strings.Join(routes, ","),
		}
		if err := os.MkdirAll(node.folder, 0o700); err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	return c, nil
}

// Start starts every server and waits until all are healthy.
func (c *Cluster) Start(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return errors.Join(err, c.Stop())
		}
	}
	for _, n := range c.Nodes {
		for !n.Healthy(ctx) {
			select {
			case <-ctx.Done():
				return errors.Join(fmt.Errorf("the NATS servers do not become healthy: %w\n%s", context.Cause(ctx), n.Log()), c.Stop())
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// Stop ends every server that runs. None is started again.
func (c *Cluster) Stop() error {
	defer c.release()
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Kill())
	}
	return errors.Join(errs...)
}

// URL returns the addresses of all servers as a client's URL.
func (c *Cluster) URL() string {
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, "nats://"+n.Address)
	}
	return strings.Join(urls, ",")
}

// Start starts the server's process.
func (n *Node) Start() error {
	args := append([]string{"--limit", strconv.FormatInt(n.limit, 10)}, n.args...)
	command := exec.Command(n.program, args...)
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start a NATS server: %w", err)
	}
	n.command, n.input = command, input
	return nil
}

// Kill kills the process, if it runs. It fails if the process had ended by itself.
func (n *Node) Kill() error {
	if n.command == nil {
		return nil
	}
	command := n.command
	n.command = nil
	_ = command.Process.Kill() // ProcessState is checked instead
	_ = command.Wait()
	_ = n.input.Close()
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && !status.Signaled() {
		return fmt.Errorf("the NATS server ended by itself: %s\n%s", command.ProcessState, n.Log())
	}
	return nil
}

// Signal sends a signal to the process, which runs.
func (n *Node) Signal(signal syscall.Signal) error { return n.command.Process.Signal(signal) }

// Clear removes everything that the server, which does not run, has stored.
func (n *Node) Clear() error {
	return errors.Join(os.RemoveAll(n.folder), os.MkdirAll(n.folder, 0o700))
}

// Limit sets max_file_store of the server, in bytes, for its next start.
func (n *Node) Limit(bytes int64) { n.limit = bytes }

// PID returns the id of the running process; 0: none runs.
func (n *Node) PID() int {
	if n.command == nil {
		return 0
	}
	return n.command.Process.Pid
}

// Healthy reports whether the server runs and has everything that its cluster has stored.
func (n *Node) Healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.monitor+"/healthz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

// Log returns the end of the server's log.
func (n *Node) Log() string {
	text, err := os.ReadFile(filepath.Join(n.folder, "log"))
	if err != nil {
		return err.Error()
	}
	const most = 5000
	return string(text[max(0, len(text)-most):])
}
