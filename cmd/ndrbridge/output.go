package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// withJSON adds --json to a command.
func (c *command) withJSON(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON, one object per line")
	return cmd
}

// print prints the result of a command: value with --json, otherwise a line for a person.
func (c *command) print(value any, line string, args ...any) error {
	if c.asJSON {
		return c.printJSON(value)
	}
	_, err := fmt.Fprintf(c.stdout, line+"\n", args...)
	return err
}

// printJSON prints a value as one line of JSON.
func (c *command) printJSON(value any) error {
	encoder := json.NewEncoder(c.stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// whileWorking calls work and returns its error. While work runs, it calls report every
// two seconds with the elapsed time.
func whileWorking(report func(time.Duration), work func() error) error {
	const every = 2 * time.Second
	done := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		ticker, began := time.NewTicker(every), time.Now()
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				report(now.Sub(began))
			case <-done:
				return
			}
		}
	})
	defer reporting.Wait()
	defer close(done)
	return work()
}
