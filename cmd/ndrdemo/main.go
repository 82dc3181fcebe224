// Command ndrdemo demonstrates the bridge: it runs a stand-in appliance, a NATS server, a
// webhook receiver, a chat, a Jira and the bridge between them in one process.
package main

import "ndrbridge/cmd/internal/commandline"

func main() { commandline.Main(run) }
