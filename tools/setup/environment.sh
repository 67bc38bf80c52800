#!/usr/bin/env bash
# Creates the virtual environment unless there is a usable one. The checkout it was created for is
# written to ENVIRONMENT/.created, which is touched only on a change (make compares its time).
#
# usage: environment.sh ENVIRONMENT RELEASE [PYTHON]      RELEASE is that of TensorFlow
set -euo pipefail

environment=$1
release=$2
wanted=${3:-}
stamp=$environment/.created
here=$(cd "$(dirname "$0")" && pwd)

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# An environment contains absolute paths, so one that was moved with its checkout is unusable.
is_good() {
  local version
  version=$(version_of "$environment/bin/python") || return 1
  [[ " $("$here/release.sh" pythons "$release") " == *" $version "* ]] || return 1
  [ -z "$wanted" ] || [ "$(version_of "$wanted")" = "$version" ] || return 1
  [ ! -e "$stamp" ] || [ "$(cat "$stamp")" = "$PWD" ] || return 1
  [ -e "$stamp" ] || "$environment/bin/python" -m pip --version >/dev/null 2>&1
}

if is_good; then
  [ -e "$stamp" ] || echo "$PWD" >"$stamp"
  exit 0
fi

"$here/require_compiler.sh"
python=$("$here/find_python.sh" "$release" "$wanted")
echo "==> $environment: creating a virtual environment with $("$python" --version)"
mkdir -p "$(dirname "$environment")"
"$python" -m venv --clear "$environment"
echo "$PWD" >"$stamp"
