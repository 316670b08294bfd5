#!/usr/bin/env bash
# The official OpenAI client, and raw HTTP, against a real server with the embedded model.
# Without the packages of tests/npm, or without the model: 77, skipped.
#
#   conformance.sh MILLRACE [PATTERN]
set -euo pipefail
millrace=$(realpath "$1")
cd "$(dirname "$0")"
if [ ! -d ../npm/node_modules/openai ] || ! command -v node >/dev/null; then
  echo "skipped: needs node and the packages of tests/npm (npm install --no-save --prefix tests/npm)"
  exit 77
fi
if ! "$millrace" inspect demo >/dev/null 2>&1; then
  echo "skipped: $millrace was built without models/demo/demo.gguf"
  exit 77
fi
MILLRACE=$millrace exec node --test --test-concurrency=1 ${2:+--test-name-pattern="$2"} ./*.test.mjs
