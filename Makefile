# The usual targets. `make test` is the test command; it installs what it needs where it may.
GO      ?= go
BINARY  := build/kafka
FUZZTIME ?= 10s
CHAOS_SECONDS ?= 600
SIM_COUNT ?= 50000
PARALLEL ?= 4
MODEL_SEEDS ?= 5000
COMPAT  ?= $(HOME)/.cache/barnabas-compat
COMPAT_TESTS ?= TestGroups$$|TestStaticMembers|TestCommits|TestOffsetReset|TestPattern|TestKafkaStreams|TestKafkaConnect|TestMirrorMaker|TestAdminClientsOfOtherLanguages$$|TestAdminClientsOfOtherLanguagesWithAnAuthorizer
DIST    ?= build/barnabas-3.9.2.tgz
IMAGE   ?= barnabas:latest
BENCH   ?= ../shared/bench

.PHONY: build test unit lint fuzz bench dist image integration compat chaos screenshot sim models znodes clean help

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

build: ## the binary, as the launchers build it
	CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o $(BINARY) ./cmd/kafka

test: ## everything: lint, unit tests with the race detector, integration tests
	integration/run-tests

unit: ## unit tests with the race detector
	$(GO) test -race -timeout 10m $$($(GO) list ./... | grep -v /integration)

lint: ## gofmt, go vet, staticcheck, the import map
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'lint: these files are not formatted by gofmt'; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags compat ./integration
	$(GO) tool staticcheck ./...
	$(GO) test ./internal/archtest

integration: build ## black-box tests against the built binary, PARALLEL at once: most of the time they wait
	$(GO) test -count=1 -timeout 20m -parallel $(PARALLEL) ./integration/...

compat: build ## groups, transactions and administration with the clients that compat/install can install into COMPAT, Kafka Streams among them; Kafka Connect, MirrorMaker
	integration/compat/install $(COMPAT)
	COMPAT=$(abspath $(COMPAT)) $(GO) test -count=1 -timeout 60m -tags compat -run '$(COMPAT_TESTS)' ./integration

sim: ## one simulated history of a cluster, SEED, and what happens in it; without SEED many of them
	$(if $(SEED),SIM_SEED=$(SEED) $(GO) test -count=1 -v -run TestSeed ./controller/sim,\
	  SIM_COUNT=$(SIM_COUNT) $(GO) test -count=1 -timeout 0 -run TestHistories ./controller/sim)

models: ## MODEL_SEEDS random histories of logs, compaction, recovery, replicas, groups and transactions against their models
	MODEL_SEEDS=$(MODEL_SEEDS) $(GO) test -count=1 -timeout 0 -run 'TestModel|TestCompactModel|TestRecoverySideBySide|TestISRModel|TestHistories|TestLoadedLikeBefore' ./logstore ./broker/replica ./broker/group ./broker/txn

screenshot: ## docs/status-page.png anew, with Debian's chromium
	STATUS_PAGE_PNG=$(abspath docs/status-page.png) $(GO) test -count=1 -timeout 5m -run TestStatusPage ./integration

chaos: build ## kills, pauses, restarts, full disks among three brokers for CHAOS_SECONDS
	CHAOS_SECONDS=$(CHAOS_SECONDS) $(GO) test -count=1 -v -timeout 0 -run "TestChaos|TestStorm|TestDirectoriesInTurnsInAStorm|TestApacheKafkaJoinsOurCluster" ./integration

znodes: build ## what the znodes of three brokers of Apache Kafka do, written down anew for the test that compares ours; needs PEER
	ZNODES=record $(GO) test -count=1 -timeout 30m -run TestZnodesOfACluster ./integration

fuzz: ## each fuzz target for FUZZTIME
	@$(GO) list ./... | while read -r p; do \
	  $(GO) test -list '^Fuzz' $$p | grep '^Fuzz' | while read -r f; do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$p || exit 1; done || exit 1; done

bench: build ## side by side with Apache Kafka; needs the bench harness in BENCH
	cd $(BENCH) && $(GO) run . $(BENCH_ARGS)

dist: build ## a tarball laid out as those of Apache Kafka, DIST; it needs no Go where it is unpacked
	packaging/dist $(BINARY) $(DIST)

image: build ## the container image
	rm -rf build/image && mkdir -p build/image/config build/image/data build/image/tmp
	cp $(BINARY) build/image/kafka && cp config/*.properties build/image/config/ && chmod 0777 build/image/data build/image/tmp
	docker build -t $(IMAGE) .

compose: image ## the cluster of docker-compose.yml, in the background
	if docker compose version > /dev/null 2>&1; then c='docker compose'; else c=docker-compose; fi; BROKER_IMAGE=$(IMAGE) $$c up -d

clean: ## what was built
	rm -rf build
