#!/usr/bin/env bash
# Tests against model servers that we did not write: `make test-real`. They are the tests whose names
# start with TestReal, in files with the build tag real below internal/e2e, and with clients that we did not
# write. Ollama must run. What comes from packages of Python or Node may be missing, which is said; then, and
# only then, tests may be skipped.

cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/clients.sh

# A test of another name would be compiled here and run nowhere.
misnamed=$(grep -rl '^//go:build real' internal --include='*_test.go' | xargs -r grep -nE '^func Test' | grep -v 'func TestReal\|func TestMain(' || true)
[[ -z $misnamed ]] || die "tests with the build tag real must be called TestReal...:"$'\n'"$misnamed"

make_work
need_compiler
find_ollama
missing=()
llama_cpp="$LLAMA_CPP_PYTHON_VERSION with $GEMMA_PACKAGE $GEMMA_VERSION"
if ! find_llama_cpp; then
	llama_cpp=missing
	missing+=("llama-cpp-python $LLAMA_CPP_PYTHON_VERSION (the reason is above)")
fi
need 'a program that speaks' 'type -P flite' flite
need 'a program that understands speech' 'type -P pocketsphinx_continuous && test -d /usr/share/pocketsphinx/model/en-us/en-us' \
	pocketsphinx pocketsphinx-en-us
python_clients=installed
if ! find_python_clients; then
	python_clients=missing
	missing+=('the clients from PyPI (the reason is above)')
fi
node_clients=installed agents=installed
if ! find_node_clients; then
	node_clients=missing
	missing+=('the clients from npm (the reason is above)')
fi
if ! find_agents; then
	agents=missing
	missing+=('the coding agents from npm (the reason is above)')
fi
# Other programs that an end-to-end test may need.
start_postgres
start_redis

status=0
go_test -race -shuffle=on -timeout=20m -tags real -run '^TestReal' ./internal/e2e/... || status=$?

# Subtests do not count: they are parts of what was promised.
count() { grep "\"Action\":\"$1\"" "$WORK/events.json" | grep -cE '"Test":"[^"/]+"' || true; }
passed=$(count pass) failed=$(count fail) skipped=$(count skip)

cat <<EOF

What ran
  Ollama            $OLLAMA_VERSION, built for CPU
  llama-cpp-python  $llama_cpp
  speech            $(flite --version 2>&1 | sed -n 's/ *version: *//p' | head -n 1), PocketSphinx
  Python clients    $python_clients, versions in $CLIENTS/requirements.txt
  Node clients      $node_clients, versions in $CLIENTS/sdks/package.json
  coding agents     $agents, versions in $CLIENTS/agents/package.json
  tests             $passed passed, $failed failed, $skipped skipped
EOF
for piece in "${missing[@]}"; do
	echo "NOT RUN: what needs $piece"
done
if ((passed + failed == 0)); then
	echo 'error: no test ran' >&2
	status=1
elif ((skipped > 0 && ${#missing[@]} == 0)); then
	echo "error: $skipped tests were skipped though nothing is missing; each is listed above with its reason" >&2
	status=1
fi
echo "real: $((passed + failed)) of $((passed + failed + skipped)) ran"
exit "$status"
