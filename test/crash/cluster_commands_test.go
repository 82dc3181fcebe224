package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ndrbridge/tickets"
)

// deskCommands are ticket commands that any member accepts.
type deskCommands struct {
	book    commandBook
	tickets map[*sensor]map[string]int64 // the detections of the tickets of each desk

	mu      sync.Mutex
	refused []string // commands that were never acknowledged
}

const ticketsOfDesk = 5

// drive posts commands for the desks' tickets to random members until stop is called. Each
// is posted until it is acknowledged, before the next one of its ticket.
func (s *clusterScene) drive(t *testing.T) (c *deskCommands, stop func()) {
	t.Helper()
	c = &deskCommands{book: commandBook{accepted: make(map[string][]tickets.Command)}, tickets: make(map[*sensor]map[string]int64)}
	for _, desk := range s.sensors {
		if !desk.idle {
			continue
		}
		c.tickets[desk] = make(map[string]int64)
		for i, v := range desk.appliance.Latest()[:ticketsOfDesk] {
			c.tickets[desk][fmt.Sprintf("%s-%d", desk.name, i)] = v.ID
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var driving sync.WaitGroup
	for n, desk := range s.sensors {
		if !desk.idle {
			continue
		}
		driving.Go(func() {
			random := rand.New(rand.NewPCG(s.seed, uint64(100+n)))
			for number := 1; ctx.Err() == nil; number++ {
				ticket := fmt.Sprintf("%s-%d", desk.name, random.IntN(ticketsOfDesk))
				command := command(ticket, number, random)
				command.Appliance = desk.name
				if len(c.book.of(ticket)) == 0 || random.IntN(4) == 0 {
					command.DetectionID = c.tickets[desk][ticket]
				} else if random.IntN(2) == 0 {
					command.Appliance = "" // the one that knows the ticket
				}
				if err := s.post(ctx, random, fmt.Sprintf("%s/%d", desk.name, number), command); err != nil {
					c.refuse(fmt.Sprintf("the command %s of %s was never acknowledged: %v", *command.Assignee, ticket, err))
					return
				}
				c.book.accept([]tickets.Command{command})
				time.Sleep(callInterval)
			}
		})
	}
	stop = func() { cancel(); driving.Wait() }
	t.Cleanup(stop)
	return c, stop
}

// refuse records a command that was never acknowledged.
func (c *deskCommands) refuse(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, what)
}

// post posts a command to random members until one has acknowledged it. It returns the last
// error if none has within patience.
func (s *clusterScene) post(ctx context.Context, random *rand.Rand, key string, command tickets.Command) error {
	body, err := json.Marshal(command)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		m := s.members[random.IntN(len(s.members))]
		if err = postCommands(context.WithoutCancel(ctx), m.admin, key, body); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
}

// faults returns the differences between the acknowledged commands and what was written to
// the desks, and those that were never acknowledged.
func (c *deskCommands) faults() (faults []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	faults = append(faults, c.refused...)
	for desk, tickets := range c.tickets {
		faults = append(faults, c.book.faults(desk.appliance, tickets)...)
	}
	return faults
}

// await waits until every acknowledged command was written. It returns what is still
// missing if there is no progress.
func (c *deskCommands) await() (faults []string) {
	least, since := -1, time.Now()
	for {
		faults := c.faults()
		if len(faults) == 0 || len(c.refused) > 0 {
			return nil
		}
		if len(faults) != least {
			least, since = len(faults), time.Now()
		}
		if time.Since(since) > patience {
			return faults
		}
		time.Sleep(100 * time.Millisecond)
	}
}
