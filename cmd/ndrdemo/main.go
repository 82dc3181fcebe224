// Command ndrdemo shows the bridge at work: a stand-in appliance, a NATS server,
// a webhook receiver and the bridge between them, in one process.
package main

import "ndrbridge/cmd/internal/commandline"

func main() { commandline.Main(run) }
