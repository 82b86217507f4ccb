#!/usr/bin/env bash
# The agent of a worker. It runs in the agent job: no token of GitHub, and nothing that it writes is believed before the
# jobs after it have checked it.
#
# TO FILL IN: the command line of your agent, as the repository variable WQ_AGENT_COMMAND, or instead of the marked line
# below. It runs once for each Claim, in the order of the assignment, with
#   GH_AW_PROMPT       the prompt, which holds the assignment and the Claims
#   WQ_CLAIM_HANDLE    the Claim that this turn is for
#   WQ_CLAIM_OUTPUTS   a file for its safe outputs, one JSON object a line
#   WQ_AGENT_KEY       the secret of that name, if the repository has one
# and `work-queue work_queue_read '{}'` and the queue's other tools on its PATH. An agent that speaks MCP starts
# `wq mcp` as a server over stdio instead. Exit 0 completes the Claim; anything else cancels it, and it is tried again
# later.
set -euo pipefail

if [ -z "${WQ_AGENT_COMMAND:-}" ]; then
  echo "::error title=No agent::Set the repository variable WQ_AGENT_COMMAND, or edit this workflow's script." >&2
  exit 1
fi

handles=$(sed -n 's/^<work-claim handle="\([^"]*\)".*/\1/p' "$GH_AW_PROMPT")
for handle in $handles; do
  outputs=$(mktemp)
  outcome=cancelled
  # The line to replace, if one command line is not enough.
  if WQ_CLAIM_HANDLE="$handle" WQ_CLAIM_OUTPUTS="$outputs" bash -c "$WQ_AGENT_COMMAND"; then outcome=completed; fi
  # Every output and every finish names the Claim that it belongs to.
  jq -c --arg handle "$handle" '. + {claim_handle: $handle}' "$outputs" >>"$GH_AW_SAFE_OUTPUTS"
  rm -f "$outputs"
  work-queue work_queue_claim_finish "$(jq -nc --arg handle "$handle" --arg outcome "$outcome" '{claim_handle: $handle, outcome: $outcome}')"
done
