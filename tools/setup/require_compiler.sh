#!/usr/bin/env bash
# Fails with one line of explanation unless there is a C++17 compiler ($CXX, or c++, g++, clang++).
set -euo pipefail

if [ -n "${CXX:-}" ]; then candidates=("$CXX"); else candidates=(c++ g++ clang++); fi

for candidate in "${candidates[@]}"; do
  # $CXX may contain arguments ("ccache g++"), so it is split here on purpose.
  # shellcheck disable=SC2086
  if echo '#include <optional>' | $candidate -std=c++17 -fsyntax-only -x c++ - 2>/dev/null; then exit 0; fi
done

echo "error: no C++17 compiler among: ${candidates[*]}. Install one (Debian, Ubuntu: apt-get install g++)" \
  "or name it: make CXX=/path/to/c++" >&2
exit 1
