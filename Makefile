# make run     the gateway with the echo agent, to try it out
# make test    everything that must hold before a change lands
# make bench   the yardstick: what the gateway costs, beside a usual server (see docs/performance.md)

GO ?= go
BIN := bin/mobilegate
COMMIT := $(shell git rev-parse --short HEAD 2>/dev/null)
LDFLAGS := -s -w -X main.buildCommit=$(COMMIT)

# The race detector needs a C compiler; without one the tests run all the same.
RACE := $(shell command -v cc >/dev/null && echo -race)

.PHONY: run build fmt lint deps test test-ts fuzz bench bench-ci bench-compare bench-million clean

run: build
	@$(BIN) serve --dev

build:
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/mobilegate ./cmd/loadtest

fmt:
	gofmt -w $$(git ls-files '*.go')

lint:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "make fmt is due for: $$out"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags ownercheck ./engine ./session ./media
	$(GO) vet -tags stdjson ./codec

# What the tests need of npm. Debian's python3-websockets, mypy, nginx, nftables, strace and chromium are the system's to install
# (.ci/run does); a test whose tool is missing skips and says so.
NPM_CI = npm ci --silent --no-audit --no-fund --prefix
deps:
	@if command -v npm >/dev/null; then \
	  [ -d interop/testdata/node_modules/ws ] || $(NPM_CI) interop/testdata || exit 1; \
	  [ -d sdk/typescript/node_modules ] || $(NPM_CI) sdk/typescript || exit 1; \
	  npm run build --prefix sdk/typescript --silent || exit 1; \
	  [ -d sdk/typescript/test/node_modules ] || $(NPM_CI) sdk/typescript/test || exit 1; \
	fi

# What counts allocations and memory runs without the race detector, once more.
test: lint build deps fuzz
	$(GO) test $(RACE) -shuffle=on -timeout 8m ./...
	$(GO) test -shuffle=on -timeout 4m -tags ownercheck ./engine ./session ./media
	$(GO) test -shuffle=on -timeout 4m -tags stdjson ./codec
	CGO_ENABLED=0 $(GO) test -shuffle=on -timeout 8m ./codec ./media ./engine ./session ./agent ./internal/...
	CGO_ENABLED=0 $(GO) test -shuffle=on -timeout 8m -parallel 6 ./bench
	@$(MAKE) --no-print-directory test-ts

# The TypeScript client, as npm packs it, against the gateway of this tree: format, types, API, Node and Chromium.
test-ts: build deps
	@if command -v npm >/dev/null; then npm test --prefix sdk/typescript --silent; else echo 'skipped: the TypeScript client needs npm (Debian: nodejs npm)'; fi

# A short run of every fuzz target; FUZZTIME=10m for a long one.
FUZZTIME ?= 3s
fuzz:
	@set -e; for pkg in $$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -rhoE '^func Fuzz[A-Za-z0-9]+' $$pkg/*_test.go | sed 's/func //'); do \
	    echo "fuzz $$pkg $$f"; $(GO) test $$pkg -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x >/dev/null || { echo "it found something"; exit 1; }; \
	  done; done

# Every figure that has a goal, mobilegate and the baseline in turn: about six minutes. TABLE=quick takes less than five.
TABLE ?= full
TABLE_RUN = $(GO) test ./bench -run '^TestTable$$' -count=1 -v -parallel 8 -timeout 40m -args -table
bench:
	$(TABLE_RUN) $(TABLE)

bench-ci:
	$(TABLE_RUN) quick -table-json '$(CURDIR)/bench.json'

# The same for this tree and another commit: make bench-compare BASE=main
bench-compare: TABLE = quick
bench-compare:
	@test -n '$(BASE)' || { echo 'make bench-compare BASE=<commit>'; exit 2; }
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; git archive '$(BASE)' | tar -x -C "$$dir"; \
	  (cd "$$dir" && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o base ./cmd/mobilegate); \
	  $(TABLE_RUN) $(TABLE) -table-base "$$dir/base" -table-base-name '$(BASE)'

# A million idle devices on one gateway, in a virtual machine: by hand, 10 minutes and more. DEVICES=50000 for a quick run.
DEVICES ?= 1000000
bench-million:
	@bench/vm/run -n $(DEVICES)

clean:
	rm -rf bin bench.json
