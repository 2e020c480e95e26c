#!/usr/bin/env bash
# Generates the page code from its templates and formats every Go file: `make generate`.

cd "$(dirname "$0")/.."
source scripts/lib.sh

if [[ -n $(find . -name '*.templ' -not -path './.git/*') ]]; then
	"$(templ_tool)" generate
fi
"$(tool "$GOFUMPT")" -w .
