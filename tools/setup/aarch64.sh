#!/usr/bin/env bash
# Installs what the functors' tests on aarch64 need: from the distribution a compiler and an emulator,
# and of a release of TensorFlow the library for aarch64, which has Abseil in it.
#
# usage: aarch64.sh ENVIRONMENT RELEASE FOLDER
set -euo pipefail

environment=$1
release=$2
folder=$3
here=$(cd "$(dirname "$0")" && pwd)
library=libtensorflow_framework.so.${release%%.*}
# Until 2.15, TensorFlow's own packages have no files for it.
package=$(awk -F. '{ print ($1 == 2 && $2 > 15 ? "tensorflow" : "tensorflow-cpu-aws") }' <<<"$release")
if ! command -v aarch64-linux-gnu-g++ >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
  echo "==> installing a compiler and an emulator for aarch64"
  "$here/quietly.sh" build/aarch64.log apt-get update
  "$here/quietly.sh" build/aarch64.log apt-get install --yes --no-install-recommends g++-aarch64-linux-gnu qemu-user
fi
if [ ! -e "$folder/tensorflow/$library" ]; then
  echo "==> $folder: downloading TensorFlow $release for aarch64"
  mkdir -p "$folder"
  "$here/quietly.sh" build/aarch64.log "$environment/bin/python" -m pip download --no-deps --only-binary :all: \
    --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --dest "$folder" "$package==$release"
  "$environment/bin/python" - "$folder" "tensorflow/$library" <<'PROGRAM'
import glob, sys, zipfile
folder, name = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel:
    wheel.extract(name, folder)
PROGRAM
  rm -f "$folder"/*.whl
fi
