# Everything one does with Sluice, as one command each. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# What the scripts read.
export DOCS ASK

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)

# gpu-segmenter alone links a C library, ONNX Runtime. The standard library's net and os/user in
# pure Go make everything else the same with cgo and without, so that builds and tests share what
# was compiled. tools/setup.d/common.bash says the same.
TAGS := netgo,osusergo
export GOFLAGS := $(strip $(filter-out -tags=$(TAGS),$(GOFLAGS)) -tags=$(TAGS))
PURE := ./cmd/sluice ./cmd/ingest-worker ./cmd/query-worker ./cmd/llm-gateway
CGO := ./cmd/gpu-segmenter

# Programs that aren't part of the product have modules of their own, and source-worker, whose
# libraries no other program needs.
MODULES := cmd/source-worker tools/temporal tools/s3 tools/oidc tools/examples tools/bench tools/bench-bleve tools/chart tools/chat

# The tests of concurrent code run under the race detector; all others without it.
# The longest come first.
RACE := ./cmd/internal/... ./internal/lifecycle/... ./internal/fairness/... ./internal/inference/batch/... ./internal/bus/... ./internal/ingest/... ./internal/durable/... ./internal/modelclient/... \
	./internal/apiclient/... ./internal/auth/... ./internal/httpapi/... ./internal/webhook/... ./internal/llm/... ./internal/dense/... ./internal/retrieval/...
# Of these only the tests that start goroutines do: the others compute, and take many times as long
# under it.
RACE_SOME := ./internal/store ./internal/lexical ./internal/lexical/search
AT_ONCE := Many|Concurren|Once$$|During|Fresh|Repeat|Retry|DeadConnections|Quotas

# Tests that do less under the race detector, and their packages: they run without it, too.
LESS := TestHostileBodiesAreRefusedCheaply
LESS_IN := ./cmd/internal/apiserver
# Two test binaries at a time, twice, and four tests of each, because they wait for their own
# Postgres and Temporal for much of it. The timeout is the only limit that tests wait with: long
# enough for a machine that does ten other things.
TEST := go test -p 2 -parallel 4 -timeout 80m

.PHONY: help setup build source-worker demo up test test-plain test-race test-web screenshots test-llm test-chat ocr office tables lint fuzz bench bench-webhooks soak chaos sources-volume permissions upgrade drill compose-test kube-test clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing: Postgres with pgvector, ONNX Runtime, a Temporal server
	@tools/setup

build: ## build the back office, which needs npm, and all programs but source-worker into bin/
	@tools/web build
	@echo "build: the back office is there; next: $(notdir $(PURE))"
	@CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o bin/ $(PURE)
	@echo "build: done; next: $(notdir $(CGO)), which links a C library"
	@CGO_ENABLED=1 go build -ldflags '$(LDFLAGS)' -o bin/ $(CGO)
	@echo "build: all programs are in bin/; make source-worker adds the one that follows sources other than folders"

source-worker: ## build bin/source-worker, with which sources may also be file services, web sites, mailboxes and repositories: minutes the first time
	cd cmd/source-worker && CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o ../../bin/ .

demo: setup build ## ingest the examples and ask three questions; or DOCS=/some/folder ASK="some question"
	@tools/demo

up: setup build ## run Sluice here until Ctrl-C; DATA=/some/folder chooses where its data is
	@exec bin/sluice up $(if $(DATA),--data '$(DATA)')

test: export SLUICE_SETUP_ALL := 1
test: setup build ## run every test
	@tools/setup s3 oidc strace pgbouncer tesseract chromium firefox
	@$(MAKE) --no-print-directory -j 2 test-race test-plain

# The two run side by side, because each waits for its servers for a part of the time.
test-plain:
	CGO_ENABLED=1 $(TEST) $$(comm -23 <(go list ./... | sort) <(go list $(RACE) | sort))
	CGO_ENABLED=1 $(TEST) -run '^($(LESS))$$' $(LESS_IN)
	@for module in $(MODULES); do (cd "$$module" && echo "in $$module:" && CGO_ENABLED=0 go test -timeout 60m ./...); done
	@$(MAKE) --no-print-directory test-web

test-race:
	CGO_ENABLED=1 $(TEST) -race $(RACE)
	CGO_ENABLED=1 $(TEST) -race -run '$(AT_ONCE)' $(RACE_SOME)

test-web: setup build ## drive the back office in a real Chromium and a real Firefox, which are installed if they are not there
	@tools/setup chromium firefox oidc
	@tools/browse test language-model firefox sign-in sources

screenshots: setup build ## take pictures of every page of the back office, into dist/screenshots
	@tools/setup chromium
	@tools/browse screenshots

lint: ## gofmt, vet, staticcheck, workflowcheck, and the compose file
	@tools/setup compose
	@tools/lint/run

bench: setup build ## measure against what is to be reached: the quick parts, or PART=lexical (docs/benchmarks.md), of DOCS=/some/folder
	cd tools/bench && CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o ../../bin/ .
	cd tools/bench-bleve && CGO_ENABLED=0 go build -o ../../bin/ .
	@if [ '$(PART)' = lucene ]; then tools/bench-lucene/build; fi
	@if [ '$(PART)' = weaviate ]; then tools/setup weaviate; fi
	@bin/bench $(or $(PART),all --quick) $(if $(DOCS),--docs '$(DOCS)')

bench-webhooks: setup ## deliveries a second to a webhook whose receiver answers at once
	CGO_ENABLED=0 go test ./internal/store -run XXX -bench Webhooks -benchtime 3000x

soak: setup ## work for half an hour while each part is taken away for a minute in turn; or DURATION=5m FAULT=10s TIMEOUT=20m
	SOAK_DURATION='$(or $(DURATION),30m)' SOAK_FAULT='$(or $(FAULT),1m)' CGO_ENABLED=0 go test -tags soak,$(TAGS) -count=1 -timeout '$(or $(TIMEOUT),90m)' -v -run '^TestSoak$$' ./e2e

chaos: setup ## several of each program on clusters, while a seed decides what is asked and what fails: 5 minutes, SEED=n DURATION=5m, after the seeds that once failed; or SEEDS=failed for these alone (docs/chaos.md)
	CHAOS_SEED='$(SEED)' CHAOS_DURATION='$(DURATION)' CHAOS_SEEDS='$(SEEDS)' CGO_ENABLED=1 go test -tags chaos,$(TAGS) -count=1 -timeout '$(or $(TIMEOUT),90m)' -v -run '^Test(Chaos|Clusters)' ./e2e

sources-volume: setup ## follow 20,000 files on a WebDAV and an S3 server, and count what that takes; or FILES=2000
	cd cmd/source-worker && VOLUME_FILES='$(FILES)' CGO_ENABLED=0 go test -tags volume,$(TAGS) -count=1 -timeout 60m -v -run '^TestVolume$$' ./rclonefs

compose-test: setup build $(if $(filter faults,$(TEST)),source-worker) ## run docker-compose.yml on a container engine with stand-in base images, under load and faults: 10 minutes; TEST=faults for more of them, TEST=whole for these with images that are built as they ship
	@tools/setup engine
	COMPOSE_TEST='$(filter faults whole,$(TEST))' CGO_ENABLED=1 go test -tags compose,$(TAGS) -count=1 -timeout '$(or $(TIMEOUT),$(if $(filter whole,$(TEST)),120m,60m))' -v -run '^TestCompose$$' ./e2e

kube-test: setup build ## install the chart in a Kubernetes of two nodes that is built and run here, with stand-in images, and harm it under load: 10 to 25 minutes
	@tools/setup engine kube
	@trap 'tools/containers/engine stop' EXIT; trap 'exit 130' INT TERM; \
		CGO_ENABLED=1 go test -tags kube,$(TAGS) -count=1 -timeout '$(or $(TIMEOUT),60m)' -v -run '^TestKube$$' ./e2e

permissions: setup ## compare what permissions of sources let people see with a reference, over 10,000 random steps: 2 minutes
	PERMISSION_STEPS=10000 CGO_ENABLED=1 go test -tags $(TAGS) -count=1 -timeout 60m -v -run '^TestPermissionsAgainstAReference$$' ./internal/store

upgrade: setup ## run the programs of the version before (deploy/previous) and these side by side on one database: minutes, most of them to build
	CGO_ENABLED=1 go test -tags upgrade,$(TAGS) -count=1 -timeout 60m -v -run '^TestUpgrade$$' ./e2e

drill: setup ## back up and restore an installation with the documents of examples/, or DOCS=/some/folder, and print times and sizes
	DRILL_DOCS='$(DOCS)' CGO_ENABLED=1 go test -tags drill,$(TAGS) -count=1 -timeout '$(or $(TIMEOUT),60m)' -v -run '^TestLargeDrill$$' ./e2e

fuzz: setup ## feed each parser what a fuzzer makes up, for 5 seconds, or SECONDS=60
	@for f in $$(go test -list '^Fuzz' ./internal/parse | grep '^Fuzz'); do \
		CGO_ENABLED=0 go test -tags $(TAGS) -run XXX -fuzz "^$$f$$" -fuzztime '$(or $(SECONDS),5)s' -fuzzminimizetime 20x ./internal/parse || exit 1; done

ocr: setup ## read all pages of the filings printed and scanned again, against their text: hours; or EVERY=50 for each 50th page
	@tools/setup tesseract
	CGO_ENABLED=0 OCR_EVERY='$(or $(EVERY),1)' go test -tags ocr,$(TAGS) -count=1 -timeout '$(or $(TIMEOUT),24h)' -v -run '^TestAllFilingsAreReadAsTheyArePrinted$$' ./internal/parse

office: setup ## install LibreOffice, and have it convert old Office files that it made: a minute
	@tools/setup office
	go test -tags office,$(TAGS) -count=1 -run '^(TestLibreOffice.*|Test.*Conversion.*|TestOldFormats.*)$$' ./internal/parse

tables: setup ## print tables with Chromium, find them again, and say how like they are (TEDS); DIR=/some/folder keeps the pages, OF=TOOL measures what another tool found in them
	@tools/setup chromium
	CGO_ENABLED=0 TABLES_DIR='$(DIR)' TABLES_SEED='$(SEED)' TABLES_OF='$(OF)' go test -tags tables,$(TAGS) -count=1 -timeout 60m -v -run '^TestGeneratedTablesAreFound$$' ./internal/parse

test-llm: setup ## let a real language model of 135 million parameters answer, which is fetched if it is not there: 5 minutes
	@tools/setup language-model
	CGO_ENABLED=0 go test -tags llm,$(TAGS) -count=1 -timeout 30m -v -run '^TestLanguageModel$$' ./e2e

test-chat: setup ## ask in a chat by OpenAI's clients for Go, JavaScript and Python, which are installed if they are not there: 2 minutes
	@tools/setup chat
	CGO_ENABLED=1 go test -tags chat,$(TAGS) -count=1 -timeout 30m -v -run '^TestChatClients$$' ./e2e

clean: ## remove what was built here
	rm -rf bin dist web/node_modules web/dist/assets web/dist/index.html web/dist/icon.svg web/dist/.built
