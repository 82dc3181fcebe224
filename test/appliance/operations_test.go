package appliance_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"

	"ndrbridge/test/appliance/openapi"
)

// tested are the names of the operations that tests called with success.
var tested sync.Map

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

// untested compares the operations of the description with those of the page and with those
// that tests called.
func untested() (code int) {
	description, err := openapi.Load("service")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	page, err := os.ReadFile(operationsPage)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fail := func(format string, args ...any) {
		fmt.Printf("FAIL: "+format+"\n", args...)
		code = 1
	}
	served := []string{explorerPage}
	for _, o := range description.Operations {
		served = append(served, o.Name)
	}
	var listed []string
	for _, found := range row.FindAllSubmatch(page, -1) {
		listed = append(listed, string(found[1]))
		if !slices.Contains(served, string(found[1])) {
			fail("%s has %s, which is not served", operationsPage, found[1])
		}
	}
	for _, name := range served {
		if !slices.Contains(listed, name) {
			fail("%s lacks %s", operationsPage, name)
		}
		if _, ok := tested.Load(name); !ok {
			fail("no test calls %s with success", name)
		}
	}
	return code
}

// operationsPage lists the operations of the interface.
const operationsPage = "operations.md"

// explorerPage is the one page of the interface that is not an operation of the description.
const explorerPage = "GET /explore/"

var row = regexp.MustCompile("(?m)^- `([^`]+)`$")
