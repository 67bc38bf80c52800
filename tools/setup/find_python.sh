#!/usr/bin/env bash
# Prints the path of a suitable Python, or fails with one line that says what is missing.
#
# usage: find_python.sh RELEASE [PYTHON]
#   RELEASE  of TensorFlow, which must have wheels for it
#   PYTHON   the only interpreter to consider (make PYTHON=...); without it, the usual names in turn, on
#            the path and among the versions that pyenv has installed.
set -euo pipefail

supported=$("$(dirname "$0")/release.sh" pythons "$1")

# Prints why `$1` is not suitable, or nothing if it is.
complaint_about() {
  "$1" - "$supported" <<'PROGRAM' 2>/dev/null || echo "it does not start"
import sys
version = "%d.%d" % sys.version_info[:2]
if version not in sys.argv[1].split():
    print("it is Python " + version)
else:
    try:
        import ensurepip, venv
    except ImportError:
        print("it has no venv module: apt-get install python%s-venv" % version)
PROGRAM
}

shopt -s nullglob
candidates=(python3)
for version in $supported; do
  candidates=("python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python3 "${candidates[@]}")
done
if [ -n "${2:-}" ]; then candidates=("$2"); fi

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

echo "error: need Python ${supported// /, } with venv; looked for ${candidates[*]}${complaints:-: none found}." \
  "Install one (Debian, Ubuntu: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python3" >&2
exit 1
