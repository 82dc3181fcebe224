// Package hostile has peers that attack whoever connects to them: they answer what their
// protocol does not allow, announce more than they send, or say nothing. Tests run them
// against the programs and packages that have to stand them.
package hostile
