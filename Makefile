# Every way to build, check and try MindRouter. `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help demo build generate check test test-long test-real bench

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X mindrouter/internal/app.Version=$(VERSION) -X mindrouter/internal/app.Commit=$(COMMIT)

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## serve with simulated model servers, on loopback
	go run ./cmd/mindrouter demo

build: ## build the static binary bin/mindrouter
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/mindrouter ./cmd/mindrouter

generate: ## generate the page code from its templates and format everything
	scripts/generate.sh

check: ## formatting, generated code, lint, known vulnerabilities, module files
	scripts/check.sh

test: ## every test, against PostgreSQL, Redis and a browser
	scripts/test.sh

test-long: ## the long forms of the tests: hours
	scripts/test.sh --long

test-real: ## tests against model servers that we did not write
	scripts/real.sh

bench: ## micro-benchmarks, then direct against a plain proxy against MindRouter
	go test -run '^$$' -bench . -benchmem ./...
	go run ./internal/e2e/bench
