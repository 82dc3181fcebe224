# All targets need only Go and bash, except alerts, deploy-check, e2e, page
# and pictures.

.PHONY: build demo reference test lint bench torture torture-cluster alerts rules deploy-check e2e page pictures

# Build every binary into bin/.
build:
	go build -trimpath -o bin/ ./cmd/...

# A stand-in appliance, NATS, a webhook receiver and the bridge in one process.
# Ctrl-C ends it; make demo FOR=20s ends by itself with a summary.
demo:
	go run ./cmd/ndrdemo $(if $(FOR),--for $(FOR))

# The race detector needs a C compiler; without one the tests run without it.
RACE := $(if $(shell command -v $${CC:-cc}),-race)

# Generates the references in docs/ and the JSON Schema: the configuration from the comments
# in configs, the events from fixtures, the description of the API from its operations, the metrics from a running bridge, the commands from their help and their output with a stand-in appliance.
# Generates the Kubernetes resource of the alert rules from those of Prometheus.
reference:
	go run ./configs/internal/reference
	go run ./test/openapi
	UPDATE=1 go test -count=1 -run 'TestTheReferenceOf|TestTheRulesOfTheCluster' ./deploy/... ./cmd/ndrbridge ./test/events

# Many tests wait, so that more than one per processor can run.
CPUS := $(shell getconf _NPROCESSORS_ONLN)
beside = -p $(shell expr $(CPUS) + $(1)) -parallel $(shell expr 2 \* $(CPUS))

# The tests without those that kill, wait or repeat (test/slowtest), and without the race
# detector. ALL=1 runs all of them under it, with 30 kills of the bridge and 18 faults of a
# cluster. make lint runs vet.
test:
	go test -vet=off $(if $(ALL),$(RACE) -timeout 30m $(call beside,1),-short -timeout 15m $(call beside,2)) ./...

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go vet -tags e2e ./test/docs ./test/e2e ./test/page/...
	go tool staticcheck ./...
	go tool staticcheck -tags e2e ./test/docs ./test/e2e ./test/page/...
	go vet -tags promtool ./deploy/prometheus
	go tool staticcheck -tags promtool ./deploy/prometheus

# Measures draining 100,000 detections to each sink, compared with the bare client library.
bench: build
	go run ./test/bench

# Kills the bridge 2,000 times while faults are injected: about ten minutes on two cores.
# It prints the SEED that repeats its plan. make torture SEED=7 KILLS=300 FAULTS=0 sets the
# plan; FAULTS is the percentage of connections with a fault. It also kills bridges that
# accept ticket commands COMMAND_KILLS times (100), and checks the properties of states,
# of polls, of tickets, of delivery and of hidden detections many times.
torture:
	go test -count=1 -timeout 40m ./checkpoint ./sinks/webhook/ticketopener -rapid.checks=300
	go test -count=1 -timeout 40m -run 'TestAtRest|TestNothingIsLost' ./poller -rapid.checks=300
	go test -count=1 -timeout 40m -run TestPoisonAndOutages ./sinks -rapid.checks=100
	KILLS=$(or $(KILLS),2000) COMMAND_KILLS=$(or $(COMMAND_KILLS),100) go test -count=1 -timeout 40m -run TestKills -v ./test/crash

# Kills, pauses and cuts off the bridges and NATS servers of a cluster 500 times: about 40
# minutes on two cores. It prints the SEED that repeats its plan. make torture-cluster FAULTS=50
# SEED=7 sets the plan. The logs of the bridges are stored in LOGS if it is set. Before that
# it replaces the bridges by newer ones, and empties the servers; with EMBEDDED=1, the NATS servers
# are those of the bridges, and it first checks that sabotage is noticed. It fails if the log has no
# owner for too long, so the machine must be idle otherwise.
torture-cluster:
	@$(if $(LOGS),mkdir -p "$(LOGS)",:)
	for test in $(if $(EMBEDDED),TestClusterSabotageIsDetected/embedded TestClusterLosesNothing/embedded,TestClusterRollingRestart TestClusterIsRecovered TestClusterLosesNothing/separate); do \
		CLUSTER_FAULTS=$(or $(FAULTS),500) go test -count=1 -timeout 3h -run $$test -v $(if $(LOGS),-artifacts -outputdir '$(abspath $(LOGS))') ./test/crash || exit 1; \
	done

# Checks the alerts, their tests, the metrics of a running bridge and the expressions of
# the dashboard with promtool.
alerts:
	@command -v promtool >/dev/null || { echo "make alerts needs promtool: on Debian, apt-get install prometheus"; exit 1; }
	promtool check rules deploy/prometheus/rules.yaml
	promtool check config --syntax-only deploy/prometheus/prometheus.yaml
	promtool test rules deploy/prometheus/rules_test.yaml
	go test -count=1 -tags promtool ./deploy/prometheus

# Tests the bridge and its sinks with real brokers and OpenSearch, which the tests start on
# loopback unless NDRBRIDGE_TEST_KAFKA names some, and with rsyslog and syslog-ng, in the
# folder NDRBRIDGE_TEST_SYSLOG if they are not installed, and with Request Tracker and Redmine,
# which .ci/tickets installs. It needs Linux and the packages that .ci/run
# installs. The commands of those documents that need curl or jq, or build programs, run
# there too, and those of a page in docs/start with the Debian package: make e2e
# ONLY=TestThePackageDeliversAsThePageShows prints them. Schemathesis tests the stand-in appliance
# and the admin API against their descriptions. KILLS=50 make e2e ONLY=TestTickets kills the bridge
# 50 times beside each ticket system, not 20.
e2e:
	go test -tags e2e -count=1 -timeout 30m -p 1 $(if $(ONLY),-run $(ONLY)) $(if $(SKIP),-skip $(SKIP)) -v ./test/e2e ./test/docs

# Prints the alerts, with links to where you publish docs/runbook.md:
# make rules RUNBOOK_URL=https://wiki.example/ndrbridge/runbook > rules.yaml
rules:
	@: $(or $(RUNBOOK_URL),$(error set RUNBOOK_URL to the address where docs/runbook.md is published))
	@sed 's|runbook_url: docs/runbook.md|runbook_url: $(RUNBOOK_URL)|' deploy/prometheus/rules.yaml

# Checks the files in deploy with linters and schemas, and the bridge's system calls
# against its systemd unit. It needs Linux and installs its tools.
deploy-check:
	deploy/check

# Tests the status page, and the explorer of the stand-in appliance, in Chromium. Writes
# screenshots to NDRBRIDGE_SCREENSHOTS. It needs chromium, curl, python3 and npm, which
# installs axe-core. make page ONLY=TestLooks selects tests.
page:
	cd test/page && npm ci --ignore-scripts --no-audit --no-fund
	go test -tags e2e -count=1 -timeout 15m $(if $(ONLY),-run $(ONLY)) -v ./test/page

# Takes the pictures in docs/pictures, some from a demo that runs for some minutes. It needs chromium
# and a font with emoji: on Debian, fonts-noto-color-emoji.
pictures:
	go run -tags e2e ./test/page/pictures
