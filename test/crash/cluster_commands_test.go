package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ndrbridge/internal/commands"
)

// clusterCommands are ticket commands that any member accepts.
type clusterCommands struct {
	book    commandBook
	tickets map[*sensor]map[string]int64 // the detections of the tickets of each idle sensor

	mu      sync.Mutex
	refused []string // commands that were never acknowledged
}

const ticketsOfSensor = 5

// drive posts commands for the idle sensors' tickets to random members until stop is called. Each
// is posted until it is acknowledged, before the next one of its ticket.
func (s *clusterScene) drive(t *testing.T) (c *clusterCommands, stop func()) {
	t.Helper()
	c = &clusterCommands{book: commandBook{accepted: make(map[string][]commands.Command)}, tickets: make(map[*sensor]map[string]int64)}
	for _, sensor := range s.sensors {
		if !sensor.idle {
			continue
		}
		c.tickets[sensor] = make(map[string]int64)
		for i, v := range sensor.appliance.Latest()[:ticketsOfSensor] {
			c.tickets[sensor][fmt.Sprintf("%s-%d", sensor.name, i)] = v.ID
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var driving sync.WaitGroup
	for n, sensor := range s.sensors {
		if !sensor.idle {
			continue
		}
		driving.Go(func() {
			random := rand.New(rand.NewPCG(s.seed, uint64(100+n)))
			for number := 1; ctx.Err() == nil; number++ {
				ticket := fmt.Sprintf("%s-%d", sensor.name, random.IntN(ticketsOfSensor))
				command := command(ticket, number, random)
				command.Appliance = sensor.name
				if len(c.book.of(ticket)) == 0 || random.IntN(4) == 0 {
					command.DetectionID = c.tickets[sensor][ticket]
				} else if random.IntN(2) == 0 {
					command.Appliance = "" // the one that knows the ticket
				}
				if err := s.post(ctx, random, fmt.Sprintf("%s/%d", sensor.name, number), command); err != nil {
					c.refuse(fmt.Sprintf("the command %s of %s was never acknowledged: %v", *command.Assignee, ticket, err))
					return
				}
				c.book.accept([]commands.Command{command})
				time.Sleep(callInterval)
			}
		})
	}
	stop = func() { cancel(); driving.Wait() }
	t.Cleanup(stop)
	return c, stop
}

// refuse records a command that was never acknowledged.
func (c *clusterCommands) refuse(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, what)
}

// post posts a command to random members until one has acknowledged it. It returns the last
// error if none has within patience.
func (s *clusterScene) post(ctx context.Context, random *rand.Rand, key string, command commands.Command) error {
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
// the idle sensors, and those that were never acknowledged.
func (c *clusterCommands) faults() (faults []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	faults = append(faults, c.refused...)
	for sensor, tickets := range c.tickets {
		faults = append(faults, c.book.faults(sensor.appliance, tickets)...)
	}
	return faults
}

// await waits until every acknowledged command was written. It returns what is still
// missing if there is no progress.
func (c *clusterCommands) await() (faults []string) {
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
