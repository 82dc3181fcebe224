// Command ndrbridge delivers the detections, audit log entries and records of network
// detection appliances as CloudEvents to Kafka, NATS, webhooks, syslog and files.
package main

import (
	"io"
	"log"

	"ndrbridge/cmd/internal/commandline"
)

func main() {
	// Only net/http writes to the standard logger, and it logs unsolicited responses,
	// which may contain a secret.
	log.SetOutput(io.Discard)
	commandline.Main(run)
}
