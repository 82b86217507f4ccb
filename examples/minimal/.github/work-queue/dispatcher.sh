#!/usr/bin/env bash
# The agent of the dispatcher. It plans; the trusted jobs after it admit and grant.
#
# TO FILL IN: what there is to do. This example admits one Work for each run of the dispatcher. An agent that speaks MCP
# starts `wq mcp` as a server over stdio instead.
set -euo pipefail

work-queue work_queue_read '{}'
work-queue work_queue_submit "$(jq -nc --arg run "run-$GITHUB_RUN_ID" \
  '{nodes: [{graph_id: $run, node_key: "root", payload: {task: "say what this repository is for"}}]}')"
# How many Claims and workers this run asks for. The queue decides whose turn it is.
work-queue work_queue_dispatch_next '{"pool":"default","max_claims":1,"max_dispatches":1}'
