#!/usr/bin/env bash
# Installs Chromium and its driver from the distribution, unless they are there.
set -euo pipefail

if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then exit 0; fi
here=$(cd "$(dirname "$0")" && pwd)
echo "==> installing Chromium and its driver"
"$here/quietly.sh" build/browser.log apt-get update
"$here/quietly.sh" build/browser.log apt-get install --yes --no-install-recommends chromium chromium-driver
