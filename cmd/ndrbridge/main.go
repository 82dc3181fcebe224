// Command ndrbridge delivers what a network detection appliance shows to Kafka,
// NATS, webhooks and files.
package main

import (
	"io"
	"log"

	"ndrbridge/cmd/internal/commandline"
)

func main() {
	// Nobody but net/http writes there: what a server sends unasked, in which it may
	// repeat a secret.
	log.SetOutput(io.Discard)
	commandline.Main(run)
}
