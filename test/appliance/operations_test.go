package appliance_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"ndrbridge/test/appliance/openapi"
)

// tested are the operations that tests called with success.
var tested operations

// operations are the names of tests by the name of the operation that they called.
type operations struct {
	mu    sync.Mutex
	tests map[string]map[string]bool
}

func (o *operations) add(operation, test string) {
	test, _, _ = strings.Cut(test, "/")
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tests == nil {
		o.tests = make(map[string]map[string]bool)
	}
	if o.tests[operation] == nil {
		o.tests[operation] = make(map[string]bool)
	}
	o.tests[operation][test] = true
}

// TestMain fails a run of all tests if none of them called an operation with success.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && runsAll() {
		code = untested()
	}
	os.Exit(code)
}

func runsAll() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.bench", "test.fuzz"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

func untested() (code int) {
	description, err := openapi.Load("service")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, o := range description.Operations {
		if tested.tests[o.Name] == nil {
			fmt.Printf("FAIL: no test calls %s with success\n", o.Name)
			code = 1
		}
	}
	return code
}
