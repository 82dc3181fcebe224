package zombie

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
	"ndrbridge/transform"
)

// site is the log and the receiver of its events. The receiver lists the
// versions in the order in which their requests are complete.
type site struct {
	*httptest.Server

	mu       sync.Mutex
	first    func(version string, body io.Reader) (status int) // answers the first owner; 0: as usual
	lost     bool                                              // the first owner does not reach the log
	taken    bool                                              // by the second owner
	renewed  time.Time
	complete []string // the version, with its owner
}

func newSite(t *testing.T) *site {
	s := &site{}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			_ = c.(*net.TCPConn).SetReadBuffer(64 << 10) // a large body does not fit
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/log" {
		w.WriteHeader(s.renew())
		return
	}
	head := make([]byte, 1024)
	n, err := io.ReadFull(r.Body, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return
	}
	body := io.MultiReader(strings.NewReader(string(head[:n])), r.Body)
	s.mu.Lock()
	answer := s.first
	s.mu.Unlock()
	if r.URL.Path == "/first" && answer != nil {
		_, rest, _ := strings.Cut(string(head), `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		if status := answer(id, r.Body); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	var e struct{ ID string }
	if all, err := io.ReadAll(body); err != nil || json.Unmarshal(all, &e) != nil {
		return // torn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = append(s.complete, e.ID+" "+r.URL.Path)
}

// answer sets first.
func (s *site) answer(first func(version string, body io.Reader) (status int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = first
}

// renew answers a renewal of the first owner.
func (s *site) renew() (status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken:
		return http.StatusConflict
	case s.lost:
		return http.StatusServiceUnavailable
	}
	s.renewed = time.Now()
	return http.StatusOK
}

// take waits as long as a follower does, and takes over.
func (s *site) take() {
	for {
		s.mu.Lock()
		wait := time.Until(s.renewed.Add(term + term/4))
		s.taken = wait <= 0
		s.mu.Unlock()
		if wait <= 0 {
			return
		}
		time.Sleep(wait)
	}
}

// received returns the versions, in their order, and the owners that delivered them.
func (s *site) received(t *testing.T) (numbers []int, owners []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.complete {
		version, owner, _ := strings.Cut(one, " ")
		number := require.Value(strconv.Atoi(version))(t)
		numbers, owners = append(numbers, number), append(owners, owner)
	}
	return numbers, owners
}

// once returns the numbers with adjacent duplicates removed: a slow machine may lose its
// lease during a request and send it again.
func once(numbers []int) []int { return slices.Compact(slices.Clone(numbers)) }

// start starts the first owner.
func (s *site) start(t *testing.T, guarded, stops bool, size int) *exec.Cmd {
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), envURL+"="+s.URL, fmt.Sprintf("%s=%v", envGuarded, guarded), fmt.Sprintf("%s=%v", envStops, stops), fmt.Sprintf("%s=%d", envSize, size))
	owner.Stdout, owner.Stderr = os.Stderr, os.Stderr
	_, err := owner.StdinPipe() // closed with this process
	if err == nil {
		err = owner.Start()
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = owner.Process.Kill() // it has ended unless the test failed
		_, _ = owner.Process.Wait()
	})
	return owner
}

// awaitStopped waits until a process is stopped.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		stat := require.Value(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t)
		if _, state, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(state, "T") {
			return
		}
	}
	t.Fatal("the first owner is not stopped")
}

// An owner that goes on after another one took over delivers nothing that is late, and
// would without a lease.
func TestAnOwnerThatGoesOnDeliversNothingLate(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s *site, guarded bool) (owner *exec.Cmd, resume func())
	}{
		{"stopped between the check and the write", func(t *testing.T, s *site, guarded bool) (*exec.Cmd, func()) {
			owner := s.start(t, guarded, true, 1000)
			awaitStopped(t, owner.Process.Pid)
			return owner, func() { _ = owner.Process.Signal(syscall.SIGCONT) }
		}},
		{"stopped in the middle of a body", func(t *testing.T, s *site, guarded bool) (*exec.Cmd, func()) {
			begun, read := make(chan bool), make(chan bool)
			var first sync.Once
			s.answer(func(version string, _ io.Reader) int {
				if version == strconv.Itoa(stopped) {
					first.Do(func() { close(begun) })
					<-read
				}
				return 0
			})
			owner := s.start(t, guarded, false, 9<<20)
			<-begun
			_ = owner.Process.Signal(syscall.SIGSTOP)
			awaitStopped(t, owner.Process.Pid)
			return owner, func() {
				_ = owner.Process.Signal(syscall.SIGCONT)
				close(read)
			}
		}},
		{"cut off from the log while the receiver answers 503", func(t *testing.T, s *site, guarded bool) (*exec.Cmd, func()) {
			begun, up := make(chan bool), make(chan bool)
			var first sync.Once
			s.answer(func(version string, body io.Reader) int {
				if version != strconv.Itoa(stopped) {
					return 0
				}
				first.Do(func() {
					s.mu.Lock()
					s.lost = true
					s.mu.Unlock()
					close(begun)
				})
				select {
				case <-up:
					return 0
				default:
					_, _ = io.Copy(io.Discard, body)
					return http.StatusServiceUnavailable
				}
			})
			owner := s.start(t, guarded, false, 1000)
			<-begun
			return owner, func() { close(up) }
		}},
	} {
		for _, guarded := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with a lease: %v", c.name, guarded), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				owner, resume := c.run(t, s, guarded)
				s.take()
				before, _ := s.received(t)
				require.True(t, slices.Equal(once(before), count(1, stopped-1)), "before the takeover, the receiver", before)
				deliver(t, s, stopped)
				resume()
				require.NoError(t, owner.Wait())
				s.CloseClientConnections() // ends requests that are torn
				s.Close()
				numbers, owners := s.received(t)
				switch inOrder := slices.Equal(once(numbers), count(1, versions)); {
				case guarded && !inOrder:
					t.Errorf("the receiver has %v of %v", numbers, owners)
				case !guarded && inOrder:
					t.Error("without a lease, nothing came late: the test shows nothing")
				}
			})
		}
	}
}

// count returns the numbers from first to last.
func count(first, last int) (numbers []int) {
	for i := first; i <= last; i++ {
		numbers = append(numbers, i)
	}
	return numbers
}

// deliver is the second owner: it delivers the versions from first to the last.
func deliver(t *testing.T, s *site, first int) {
	sink := require.Value(webhook.New(webhook.Options{URL: s.URL + "/second"}))(t)
	defer sink.Close()
	for i := first; i <= versions; i++ {
		e, err := version(i, 10)
		if err == nil {
			err = sink.Send(context.Background(), []transform.Event{e})
		}
		require.NoError(t, err)
	}
}
