// Package hostile implements peers that attack: they violate their protocol, announce more
// than they send, or never respond. Tests run them against the programs and packages that
// must withstand them.
package hostile
