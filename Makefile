# What one does with this repository; `make` alone says it. Variables go behind the target, as in `make fuzz FUZZTIME=5m`.

# Packages tested at a time. Most of their time is spent waiting, but tests that measure time must not starve one another, and the
# race detector leaves less of the processors.
P ?= $(if $(ALL),3,6)
# The longest that the tests of one package may take: less than CI has, so that a hang leaves a stack trace.
TIMEOUT ?= 40m
# Where make luacover notes what has run.
LUACOVER ?= /tmp/rratelimiter-luacover
# How long each target is fuzzed.
FUZZTIME ?= 1m
# How long Go and Java are compared by machine; 0 is without end.
SOAK ?= 0
# How long random faults are injected.
FOR ?= 30m

# Each module is tested with the versions of its own go.mod, as users get it; go.work would raise them to the highest.
export GOWORK := off
# The modules beside the library's own.
MODULES := cmd/ratelimit cmd/rrl bench httplimit/examples grpclimit otellimit
# All modules, the longest first. That of make release has many dependencies, and stays out of go.work.
ALL_MODULES := . $(MODULES) tools/release

# The tools, at the versions and hashes of tools/go.mod. govulncheck is not among them: it asks a database that is not
# within everyone's reach, and a gate that cannot run is none.
TOOL := go tool -modfile=$(CURDIR)/tools/go.mod

# How everything is tested. Garbage is collected when there is more of it than usual: with the race detector that is slow.
# go test alone prints packages in their order, so that the first one, which takes minutes, keeps back all others. gotestsum
# prints a line when a package ends, and the output of a test when it fails.
GOTEST = GOGC=400 GOMEMLIMIT=2GiB $(TOOL) gotestsum --format pkgname-and-test-fails --format-icons text -- \
	-shuffle=on -count=1 -vet=off -timeout $(TIMEOUT)

# The race detector, which costs as much again as all else; Go has it where it finds a C compiler.
RACE = $$(test "$$(go env CGO_ENABLED)" = 0 || echo -race -exec $(CURDIR)/tools/again.sh)

.PHONY: $(ALL_MODULES:%=test-in/%) help test lint release scripts bench luacover cost shares fuzz soak soak-faults clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile

test: ## every promise once, in three to seven minutes; with ALL=1 all tests and rounds, with the race detector: docs/testing.md
	@tools/bring.sh
	@$(MAKE) --no-print-directory -k -j2 $(ALL_MODULES:%=test-in/%)

# The tests of one module. The library's own, of which many wait, are tested beside the others, one package of those at a time.
# The rehearsal of a release compiles much, and gives way to the others.
$(ALL_MODULES:%=test-in/%): test-in/%:
	@cd $* && $(if $(filter tools/release,$*),nice -n 5 )env $(GOTEST) -p $(if $(filter .,$*),$(P),1) \
		$(if $(ALL),$(RACE),-short) ./... || { echo "failed: the tests of module $*"; exit 1; }

lint: ## format, go.mod, go vet, go fix, staticcheck, revive, lengths of lines, functions and files, API, English
	@files=$$("$$(go env GOROOT)/bin/gofmt" -l .) && test -z "$$files" || { echo "gofmt -w is needed: $$files"; exit 1; }
	@for module in $(ALL_MODULES); do (set -x; cd $$module && \
		go mod tidy -diff && \
		go vet ./... && \
		go fix -diff -stringsbuilder=false ./... && \
		$(TOOL) staticcheck -checks all ./... && \
		$(TOOL) revive -config $(CURDIR)/tools/revive.toml -set_exit_status ./... && \
		$(TOOL) revive -config $(CURDIR)/tools/revive-tests.toml -set_exit_status ./...) || exit 1; done
	@GOWORK= go vet $(MODULES:%=./%/...) # go.work has them all, and go.work.sum is complete
	@find . -name '*.lua' -exec awk 'length > 110 { print FILENAME ":" FNR ": " length " columns, must be at most 110"; bad = 1 } \
		END { exit bad }' {} +
	@tools/api.sh . $(filter grpclimit otellimit,$(MODULES)) # the exported API beside that of the last tag
	@cd tools && go test . ./prose && go run ./prose .. # English that reads as if translated, in code and docs

release: ## all files of a release in dist/, as make release VERSION=v0.1.0; it pushes and tags nothing: docs/releasing.md
	@cd tools/release && go run . -version "$(VERSION)" $(if $(GATE),-gate "$(GATE)")

scripts: ## each script as Redis gets it: with what it includes, without comments
	@SCRIPTS=1 go test -count=1 -v -run '^TestScriptsAsRedisGetsThem$$' ./internal/request | grep -v '^=== \|^--- \|^PASS$$\|^ok '

bench: ## this library beside Redisson and others, about a quarter of an hour; writes the tables of docs/benchmarks.md
	@tools/bring.sh
	cd bench && go run . -page ../docs/benchmarks.md

luacover: ## the lines of scripts/ that no test runs on miniredis; about half an hour
	@rm -rf $(LUACOVER) && mkdir -p $(LUACOVER)
	-LUACOVER=$(LUACOVER) go test -short -count=1 -p $(P) ./test/... ./internal/request ./internal/compare
	LUACOVER=$(LUACOVER) go test -count=1 -v -run TestLinesOfLuaThatNothingRuns ./internal/request

cost: ## what one call costs in Redis and in Go, beside Redisson and others; about two minutes
	@tools/bring.sh
	cd bench && go run . lone refused

shares: ## how Go and Java share limits too small for both: prints each case, fails beyond the bounds of docs/waiting.md
	@tools/bring.sh
	SHARES=long go test ./compat_test -run TestCompat -count=1 -v -timeout $(TIMEOUT) \
		-ginkgo.v -ginkgo.focus 'Shares of a limit'

fuzz: ## each fuzz target for FUZZTIME, a minute unless told
	@for package in ./test/history ./internal/wire ./internal/inspect ./httplimit ./limit ./limit/rules; do \
		targets=$$(go test -list '^Fuzz' $$package) || { echo "$$targets"; exit 1; }; \
		for target in $$(echo "$$targets" | grep '^Fuzz'); do \
			echo "$$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$package || exit 1; \
		done; \
	done

soak: ## Go beside Java by random sequences, for SOAK, until one finds something
	@tools/bring.sh
	COMPARE_SOAK=$(SOAK) go test ./compat_test -run TestCompat -count=1 -v -timeout 0 \
		-ginkgo.v -ginkgo.timeout 10000h -ginkgo.focus 'Comparison by machine soaks'

soak-faults: ## random faults of a cluster under Go and Java, for FOR, 30 minutes unless told; ends with a line of figures
	@tools/bring.sh
	FAULTS_SOAK=$(FOR) go test ./internal/faults -run 'TestFaults/of_a_cluster_at_random' -count=1 -v -timeout 0

clean: ## removes what the others leave, also outside the checkout; docs/testing.md says what
	@tools/clean.sh
