#!/usr/bin/env bash
# Checks that need no server: `make check`. It changes nothing, runs every check even after one found
# something, and fails if any did.

cd "$(dirname "$0")/.."
source scripts/lib.sh

make_work
failed=()

# check NAME COMMAND... runs one check and remembers what failed. The command must not print on success.
check() {
	local name=$1 start=$SECONDS
	shift
	if "$@"; then
		say "$name: ok ($((SECONDS - start)) s)"
	else
		say "$name: FAILED"
		failed+=("$name")
	fi
}

formatted() {
	local files
	files=$("$(tool "$GOFUMPT")" -l .) || return
	[[ -z $files ]] || { printf 'make generate would format:\n%s\n' "$files" && return 1; }
}

# generated compares the committed page code with what its templates give now.
generated() {
	local copy=$WORK/templ
	mkdir "$copy"
	find . \( -name '*.templ' -o -name '*_templ.go' -o -path ./go.mod \) -not -path './.git/*' -exec cp --parents {} "$copy" \;
	[[ -n $(find "$copy" -name '*.templ') ]] || return 0
	cp -r "$copy" "$WORK/committed"
	find "$copy" -name '*_templ.go' -delete
	(cd "$copy" && "$templ" generate) >"$WORK/templ.log" 2>&1 || { cat "$WORK/templ.log" && return 1; }
	diff -ru "$WORK/committed" "$copy" || { echo 'run make generate' && return 1; }
}

module_files() { go mod tidy -diff; }

vet() { go vet ./... && go vet -tags real ./internal/e2e/...; }

lint() { "$(tool "$GOLANGCI_LINT")" run --build-tags real ./...; }

# vulnerabilities asks the public database about code that we call. Without the database it cannot
# know, says so, and does not fail: it exits 3 for findings only.
vulnerabilities() {
	local status=0
	"$(tool "$GOVULNCHECK")" ./... >"$WORK/vulnerabilities" 2>&1 || status=$?
	case $status in
	0) ;;
	3) cat "$WORK/vulnerabilities" && return 1 ;;
	*)
		echo 'NOT CHECKED: govulncheck did not get an answer, so known vulnerabilities were not looked for:'
		sed 's/^/    /' "$WORK/vulnerabilities"
		;;
	esac
}

shell_scripts() {
	local script
	for script in scripts/*.sh .ci/run; do
		bash -n "$script" || return
	done
}

# The build of a tool would count as the time of its check.
templ=$(templ_tool)
tool "$GOFUMPT" >/dev/null
tool "$GOLANGCI_LINT" >/dev/null
tool "$GOVULNCHECK" >/dev/null

check 'shell syntax' shell_scripts
check 'gofumpt' formatted
check 'generated pages' generated
check 'go.mod and go.sum' module_files
check 'go vet' vet
check 'golangci-lint' lint
check 'govulncheck' vulnerabilities

((${#failed[@]} == 0)) || die "these checks found something: ${failed[*]}"
