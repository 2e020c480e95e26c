#!/usr/bin/env bash
# Runs every test against real servers: `make test`. Missing programs are installed on Debian when
# root runs it. A skipped test fails the run, because what is skipped looks like what passed.
#
#   scripts/test.sh            the tests, each in its short form
#   scripts/test.sh --long     the long forms, and every fuzz target for 60 s; what it finds becomes a seed
#   scripts/test.sh --packages ./internal/store/...   only these packages

cd "$(dirname "$0")/.."
source scripts/lib.sh

timeout=20m
fuzz=
packages=./...
while (($# > 0)); do
	case $1 in
	--long)
		export MINDROUTER_TEST_LONG=1
		fuzz=60s
		timeout=4h
		;;
	--packages)
		packages=${2:?--packages needs a pattern}
		shift
		;;
	*) die "unknown argument $1" ;;
	esac
	shift
done

make_work
need_compiler
start_postgres
start_redis
find_chromium

status=0
go_test -race -shuffle=on -timeout="$timeout" "$packages" || status=$?
skipped=$(count_tests skip)

fuzzed=0
if [[ -n $fuzz ]]; then
	while IFS=: read -r file target; do
		say "fuzzing $target in $(dirname "$file") for $fuzz"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzz" -fuzzminimizetime 10x "./$(dirname "$file")" || status=1
		fuzzed=$((fuzzed + 1))
	done < <(grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z]*' internal | sed 's/func //')
fi

cat <<EOF

What ran
  Go          $(go env GOVERSION), race detector, shuffled
  PostgreSQL  $POSTGRES_VERSION
  Redis       $REDIS_VERSION
  Browser     $CHROMIUM_VERSION
  packages    $(count_packages pass) passed, $(count_packages fail) failed, $(count_packages skip) without tests
  tests       $(count_tests pass) passed, $(count_tests fail) failed, $skipped skipped
  fuzzed      $fuzzed targets${fuzz:+, $fuzz each}
EOF
(($(count_tests pass) + $(count_tests fail) > 0)) || die 'no test ran'
((skipped == 0)) || die "$skipped tests were skipped; each is listed above with its reason"
exit "$status"
