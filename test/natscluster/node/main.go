// Command node is a NATS server with JetStream that syncs every write, one of a cluster. It
// runs until SIGTERM, or until its standard input ends, so that it does not outlive the
// process that started it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := options(args)
	if err != nil {
		return err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	ctx, end := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// options returns the server's options from the command line.
func options(args []string) (*server.Options, error) {
	f := flag.NewFlagSet("node", flag.ContinueOnError)
	name := f.String("name", "", "the server's name")
	folder := f.String("folder", "", "the folder of its data and its log")
	client := f.String("client", "", "the address for clients, host:port")
	monitor := f.String("monitor", "", "the address for monitoring")
	route := f.String("route", "", "the address for the other servers")
	routes := f.String("routes", "", "the addresses of the other servers, separated by commas")
	limit := f.Int64("limit", 0, "max_file_store in bytes; 0: that of the disk")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o := &server.Options{
		ServerName: *name, JetStream: true, StoreDir: *folder, JetStreamMaxStore: *limit, SyncAlways: true, NoSigs: true,
		LogFile: filepath.Join(*folder, "log"), Logtime: true,
	}
	// The server names no addresses to clients and other servers: all use those that they
	// were given, which may be those of proxies.
	const nowhere = "127.0.0.1:1"
	o.Cluster.Name, o.Cluster.NoAdvertise, o.Cluster.Advertise = "test", true, nowhere
	var errs [3]error
	o.Host, o.Port, errs[0] = split(*client)
	o.HTTPHost, o.HTTPPort, errs[1] = split(*monitor)
	o.Cluster.Host, o.Cluster.Port, errs[2] = split(*route)
	for address := range strings.SplitSeq(*routes, ",") {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: address})
	}
	return o, errors.Join(errs[:]...)
}

func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}
