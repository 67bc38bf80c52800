#!/usr/bin/env bash
# Tells what releases.txt has of releases of TensorFlow, of which the first is the default.
#
# usage: release.sh default               2.15.1
#        release.sh all                   2.15.1 1.15.5 2.21.0
#        release.sh pythons RELEASE       that have wheels of it, oldest first: 3.9 3.10 3.11
#        release.sh packages RELEASE      that it consists of: tensorflow-cpu==2.21.0 tf-keras==2.21.0
#        release.sh limits RELEASE        of other packages, whose later versions it does not work with: protobuf<3.21
set -euo pipefail

releases=$(dirname "$0")/releases.txt

# The fields behind the release of a row that match a pattern.
fields() {
  row=$(awk -v release="$1" '$1 == release { $1 = ""; print }' "$releases")
  if [ -z "$row" ]; then
    echo "error: TF=$1 is none of the releases of TensorFlow that have a set-up: $(all)" >&2
    exit 1
  fi
  tr ' ' '\n' <<<"$row" | { grep -E "$2" || true; } | xargs
}

all() { cut -d' ' -f1 "$releases" | xargs; }

case $1 in
  default) head -n 1 "$releases" | cut -d' ' -f1 ;;
  all) all ;;
  pythons) fields "$2" '^3\.[0-9]+$' ;;
  packages) fields "$2" '==' ;;
  limits) fields "$2" '<' ;;
esac
