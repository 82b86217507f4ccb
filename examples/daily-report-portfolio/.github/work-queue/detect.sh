#!/usr/bin/env bash
# Judges what the agent left in /tmp/gh-aw before the trusted jobs look at it. Exit 0 lets them; anything else stops
# them: Claims stay open then, until a reconciliation has seen the run end.
#
# TO FILL IN: your own check, such as a scanner for secrets or prompt injection. This one only refuses files that are
# larger than the queue would read; it looks for no threat.
set -euo pipefail

for file in agent_output.json safeoutputs.jsonl work-queue.intents.jsonl work-queue.finish.jsonl; do
  if [ -e "/tmp/gh-aw/$file" ] && [ "$(wc -c <"/tmp/gh-aw/$file")" -gt 4194304 ]; then
    echo "::error title=Detection::A file of the agent is larger than 4 MiB." >&2
    exit 1
  fi
done
echo "No threat detection is configured; see .github/work-queue/detect.sh."
