#!/bin/sh
# Chromium for the browser tests, from the distribution's packages. Does nothing where one is found.
set -eu

for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null 2>&1; then
    exit 0
  fi
done

if ! command -v apt-get >/dev/null 2>&1; then
  echo "The browser tests need Chromium; install it with this system's package manager." >&2
  exit 1
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "Chromium is missing; as root run: apt-get install chromium" >&2; exit 1; }
  as_root=sudo
fi
echo "Installing Chromium for the browser tests"
$as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends chromium >/dev/null
