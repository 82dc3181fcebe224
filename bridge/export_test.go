package bridge

// What a bridge is made of, for tests of one part alone.
var (
	OpenSink  = openSink
	NewClient = newClient
)
