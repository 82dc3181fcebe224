package appliance_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
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

// untested compares the tested operations with those of the description and those of the
// table. With UPDATE set, it writes their tests into the table.
func untested() (code int) {
	description, err := openapi.Load("service")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	page, err := os.ReadFile(tableFile)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fail := func(format string, args ...any) {
		fmt.Printf("FAIL: "+format+"\n", args...)
		code = 1
	}
	served := map[string]bool{explorerPage: true}
	for _, o := range description.Operations {
		served[o.Name] = true
		if tested.tests[o.Name] == nil {
			fail("no test calls %s with success", o.Name)
		}
	}
	update := os.Getenv("UPDATE") != ""
	listed := make(map[string]bool)
	page = row.ReplaceAllFunc(page, func(line []byte) []byte {
		found := row.FindSubmatch(line)
		name, test := string(found[1]), string(found[2])
		listed[name] = true
		switch tests := tested.tests[name]; {
		case !served[name]:
			fail("%s has %s, which is not served", tableFile, name)
		case !tests[test] && update && len(tests) > 0:
			return fmt.Appendf(nil, "| `%s` | %s |", name, slices.Sorted(maps.Keys(tests))[0])
		case !tests[test]:
			fail("%s: %q does not call %s with success; UPDATE=1 sets another test", tableFile, test, name)
		}
		return line
	})
	for _, name := range slices.Sorted(maps.Keys(served)) {
		switch tests := tested.tests[name]; {
		case listed[name]:
		case update && len(tests) > 0: // the last section has what the interface leaves open
			page = fmt.Appendf(page, "| `%s` | %s |\n", name, slices.Sorted(maps.Keys(tests))[0])
		default:
			fail("%s lacks %s", tableFile, name)
		}
	}
	if update && code == 0 {
		if err := os.WriteFile(tableFile, page, 0o644); err != nil {
			fail("%v", err)
		}
	}
	return code
}

// tableFile lists the operations of the interface, each with a test.
const tableFile = "operations.md"

// explorerPage is the one page of the interface that is not an operation of the description.
const explorerPage = "GET /explore/"

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\w*) ?\\|$")
