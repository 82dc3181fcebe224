// Package endpoint makes the clients of everything that a pipeline connects to, from
// its configuration: appliances, sinks, and the brokers of ticket commands. Nothing is
// contacted until a client is used, so a start, a reload and a check make them alike.
package endpoint
