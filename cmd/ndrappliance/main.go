// Command ndrappliance serves a stand-in for a network detection appliance.
package main

import "ndrbridge/cmd/internal/commandline"

func main() { commandline.Main(run) }
