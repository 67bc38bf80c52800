#!/usr/bin/env bash
# Prints the path of a suitable Python, or fails with one line that says what is missing.
#
# usage: find_python.sh [PYTHON]
#   PYTHON   the only interpreter to consider (make PYTHON=...); without it, the usual names in turn.
set -euo pipefail

# Prints why `$1` is not suitable, or nothing if it is.
complaint_about() {
  "$1" - <<'PROGRAM' 2>/dev/null || echo "it does not start"
import sys
if not (3, 9) <= sys.version_info[:2] <= (3, 11):
    print("it is Python %d.%d" % sys.version_info[:2])
else:
    try:
        import ensurepip, venv
    except ImportError:
        package = "python%d.%d-venv" % sys.version_info[:2]
        print("it has no venv module: apt-get install " + package)
PROGRAM
}

if [ $# -gt 0 ] && [ -n "$1" ]; then candidates=("$1"); else candidates=(python3.11 python3.10 python3.9 python3); fi

complaints=""
for candidate in "${candidates[@]}"; do
  command -v "$candidate" >/dev/null || continue
  complaint=$(complaint_about "$candidate")
  if [ -z "$complaint" ]; then
    command -v "$candidate"
    exit 0
  fi
  complaints+=" ($candidate: $complaint)"
done

echo "error: need Python 3.9, 3.10 or 3.11 with venv; looked for ${candidates[*]}${complaints:-: none found}." \
  "Install one (Debian, Ubuntu: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python3" >&2
exit 1
