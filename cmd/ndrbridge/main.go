// Command ndrbridge delivers what a network detection appliance shows to Kafka,
// NATS, webhooks and files.
package main

import "ndrbridge/cmd/internal/commandline"

func main() { commandline.Main(run) }
