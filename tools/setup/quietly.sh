#!/usr/bin/env bash
# Runs a command with its output written to a file, and prints that file if the command fails.
#
# usage: quietly.sh LOG COMMAND [ARGUMENT...]
set -euo pipefail

log=$1
shift
mkdir -p "$(dirname "$log")"
echo "+ $*" >"$log"
if ! "$@" >>"$log" 2>&1; then
  cat "$log" >&2
  echo "error: '$*' failed; its output is above and in $log" >&2
  exit 1
fi
