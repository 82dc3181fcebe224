// Command ndrbridge delivers what a network detection appliance shows to Kafka,
// NATS, webhooks and files.
package main

import (
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }
