#!/bin/sh
# fuzz.sh SECONDS: runs all fuzz targets in turn, for SECONDS in total. The corpus is kept in
# $EBB_CACHE/fuzz, where the next run starts. Go writes a failing input below the package's testdata.
set -eu
cd "$(dirname "$0")/.."
corpus=${EBB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ebb}/fuzz
mkdir -p bin/fuzz "$corpus"

targets=$(git grep -hoE '^func Fuzz\w+' -- '*_test.go' | wc -l)
each=$(($1 * 1000 / targets))
echo "$targets targets, $each ms each"
# Each package is compiled once for all of its targets.
git grep -lE '^func Fuzz\w+' -- '*_test.go' | xargs -n 1 dirname | sort -u | while read -r package; do
	binary=$PWD/bin/fuzz/$(echo "$package" | tr / -).test
	go test -c -vet=off -fuzz . -o "$binary" "./$package"
	git grep -hoE '^func Fuzz\w+' -- "$package/*_test.go" | sed 's/^func //' | while read -r target; do
		mkdir -p "$corpus/$package"
		(cd "$package" && "$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "${each}ms" \
			-test.fuzzcachedir "$corpus/$package" >"$binary.log" 2>&1) || {
			cat "$binary.log"
			echo "fuzz.sh: $target in $package failed" >&2
			exit 1
		}
		echo "ok $package $target: $(grep -o 'execs: [0-9]*' "$binary.log" | tail -n 1)"
	done
done
