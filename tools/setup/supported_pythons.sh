#!/usr/bin/env bash
# Prints the versions of Python that pyproject.toml allows, oldest first: 3.9 3.10 3.11
set -euo pipefail

allowed='^requires-python = ">=3\.([0-9]+),<3\.([0-9]+)"$'
read -r first end < <(sed -nE "s/$allowed/\1 \2/p" "$(dirname "$0")/../../pyproject.toml")
versions=()
for ((minor = first; minor < end; ++minor)); do versions+=("3.$minor"); done
echo "${versions[*]}"
