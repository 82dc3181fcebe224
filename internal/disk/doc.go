// Package disk reports how much space file systems have.
package disk
