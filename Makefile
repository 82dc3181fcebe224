# Everything here needs nothing but Go and bash, except alerts, deploy-check, e2e and page.

.PHONY: build demo render reference test lint bench torture alerts deploy-check e2e page

# Build every binary into bin/.
build:
	go build -trimpath -o bin/ ./cmd/...

# A stand-in appliance, NATS, a webhook receiver and the bridge in one process.
# Ctrl-C ends it; make demo FOR=20s ends by itself with a summary.
demo:
	go run ./cmd/ndrdemo $(if $(FOR),--for $(FOR))

# What a webhook's preset makes of a few events of the stand-in appliance:
# make render PRESET=slack, or teams, discord, pagerduty, splunk_hec, elasticsearch,
# datadog; BATCH=1 shows each by itself.
render:
	@go run ./cmd/ndrdemo events | go run ./cmd/ndrbridge render $(or $(PRESET),slack) $(if $(BATCH),--batch $(BATCH))

# The race detector needs a C compiler; without one the tests run all the same.
RACE := $(if $(shell command -v $${CC:-cc}),-race)

# The references in docs/ and the JSON Schema, from the code: of the configuration, from
# the comments in configs; of the events, made of fixtures; of the metrics, from a running
# bridge; of the commands, from their help and what they print beside a stand-in appliance.
# The alert rules as a resource of Kubernetes, from those of Prometheus.
reference:
	go run ./configs/internal/reference
	go run ./test/events
	UPDATE=1 go test -count=1 -run 'TestTheReferenceOf|TestTheRulesOfTheCluster' ./deploy/... ./cmd/ndrbridge

test:
	go test $(RACE) ./...

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go vet -tags e2e ./test/e2e ./test/page
	go tool staticcheck ./...
	go tool staticcheck -tags e2e ./test/e2e ./test/page
	go vet -tags promtool ./deploy/prometheus
	go tool staticcheck -tags promtool ./deploy/prometheus

# The drain of 100,000 detections to each sink, beside the bare client library.
bench: build
	go run ./test/bench

# 2,000 kills among faults, instead of the few of the tests: about ten minutes on
# two cores. It tells the SEED that repeats its plan; make torture SEED=7
# KILLS=300 FAULTS=0 chooses, FAULTS being connections in a hundred. Beside it, bridges
# that take ticket commands in are killed COMMAND_KILLS times (100).
torture:
	KILLS=$(or $(KILLS),2000) COMMAND_KILLS=$(or $(COMMAND_KILLS),100) go test -count=1 -timeout 40m -run TestKills -v ./test/crash

# The alerts, their tests, every metric of a running bridge and every expression of
# the dashboard, checked with Prometheus' own tool.
alerts:
	@command -v promtool >/dev/null || { echo "make alerts needs promtool: on Debian, apt-get install prometheus"; exit 1; }
	promtool check rules deploy/prometheus/rules.yaml
	promtool check config --syntax-only deploy/prometheus/prometheus.yaml
	promtool test rules deploy/prometheus/rules_test.yaml
	go test -count=1 -tags promtool ./deploy/prometheus

# The bridge and its sinks against real brokers, which the tests start on loopback
# unless NDRBRIDGE_TEST_KAFKA names some. It needs Linux, and what .ci/run installs.
# make e2e ONLY=TestKafka chooses.
e2e:
	go test -tags e2e -count=1 -timeout 10m $(if $(ONLY),-run $(ONLY)) -v ./test/e2e

# What is in deploy, against what reads it: linters, schemas, and the bridge's system
# calls against those that its unit allows. It needs Linux, and installs its tools.
deploy-check:
	deploy/check

# The status page in Chromium, as an operator uses it, with pictures of how it looks
# in NDRBRIDGE_SCREENSHOTS. It needs chromium and npm, which installs axe-core.
# make page ONLY=TestLooks chooses.
page:
	cd test/page && npm ci --ignore-scripts --no-audit --no-fund
	go test -tags e2e -count=1 -timeout 5m $(if $(ONLY),-run $(ONLY)) -v ./test/page
